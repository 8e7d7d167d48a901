"""Fail unless the plug-in studies answer from the installed wheel as their documentation says.

Run in an empty folder, with the folder of the examples: only they are copied into it.
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import duckdb

FORETRACE = Path(sys.executable).with_name("foretrace")
NEITHER = "iteration"  # the word of trainings, which these are not


def foretrace(*words: str, code: int = 0) -> str:
    """Output of a command; ends the program where it ends otherwise than it should."""
    sys.stdout.write(f"$ foretrace {' '.join(words)}\n")
    sys.stdout.flush()
    done = subprocess.run([FORETRACE, *words], capture_output=True, text=True)
    if done.returncode != code:
        sys.exit(f"exit {done.returncode} instead of {code}\n{done.stdout}{done.stderr}")
    require(NEITHER not in done.stdout + done.stderr, f"it speaks of an {NEITHER}: {done.stdout}")
    return done.stdout


def require(holds: bool, otherwise: str) -> None:
    """End the program with a sentence unless something holds."""
    if not holds:
        sys.exit(otherwise)


def saved(out: str) -> Path:
    """Folder of the run that a command saved."""
    return Path(out.split()[-1]).parent


def metrics(run: Path) -> dict[str, dict[str, float]]:
    """Values by variant and metric; no key, sentence or column of the run names an iteration."""
    text, page = (run / "summary.json").read_text(), (run / "report.html").read_text()
    require(NEITHER not in (text + page).lower(), f"{run}: speaks of an {NEITHER}")
    for table in run.glob("*.parquet"):
        columns = duckdb.sql(f"select * from '{table}'").columns
        require(NEITHER not in columns, f"{table}: has the columns {columns}")
    points = json.loads(text)["points"]
    require(all(e["met"] for p in points.values() for e in p["expect"]), f"{run}: not as expected")
    return {k: {m: v["value"] for m, v in p["metrics"].items()} for k, p in points.items()}


def study(name: str, answer: str, miss: str, other: str) -> dict[str, dict[str, float]]:
    """Values of a scenario that was run, changed, expected too much of, swept and compared."""
    out = foretrace("run", f"{name}.yaml")
    run = saved(out)
    require(f"As described, {answer.replace('.', ' ')} is" in out, f"{name}: answers {out}")
    changed = saved(foretrace("run", f"{name}.yaml", "--set", other))
    require(metrics(changed)["base"] != metrics(run)["base"], f"{name}: {other} changes nothing")
    foretrace("run", f"{name}.yaml", "--set", other, "--set", f"expect.0.that={miss}", code=5)
    foretrace("sweep", f"{name}.yaml", "--workers", "local:1")
    compared = foretrace("compare", str(run), str(changed))
    require(answer.replace(".", " ") in compared, f"{name}: not compared")
    foretrace("report", str(run), "--output", f"{name}.html")
    require(f"<title>{name}" in Path(f"{name}.html").read_text(), f"{name}: has no page")
    return metrics(run)


def main() -> None:
    """Both of them."""
    shutil.copytree(sys.argv[1], ".", dirs_exist_ok=True)
    served = study("serving", "ttft.p99", "ttft.p99 <= 1 us", "workload.requests=100")
    base, half = (served[variant]["ttft.p99"] for variant in ("base", "half-the-cache"))
    require(half > 2 * base > 0, f"ttft.p99 is {base} s, and {half} s with half the cache")
    fleet = study("fleet", "makespan", "b.makespan <= 1 us", "workload.every=4")
    for variant, values in fleet.items():
        for job in "ab":
            require(values.get(f"{job}.makespan", 0.0) > 0, f"{variant}: when is {job} done?")


if __name__ == "__main__":
    main()
