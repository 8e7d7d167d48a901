"""Print the test folders of what differs from a commit: `python .ci/changed.py [main]`."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def changed_files(since: str) -> list[Path]:
    """Files that differ from a commit, and files that git does not know."""
    listings = (
        ["git", "diff", "--name-only", since],
        ["git", "ls-files", "--others", "--exclude-standard"],
    )
    texts = (subprocess.check_output(words, cwd=ROOT, text=True) for words in listings)
    return [Path(name) for text in texts for name in text.splitlines()]


def tests_of(file: Path) -> Path:
    """Nearest folder of tests that mirrors a file's folder; the file itself if it is a test."""
    if file.parts[0] == "tests" and file.name.startswith("test_"):
        return file
    folder = Path("tests", *(p for p in file.parent.parts if p != "tests"))
    while not (ROOT / folder).is_dir():
        folder = folder.parent
    return folder


chosen = {str(tests_of(f)) for f in changed_files(sys.argv[1] if sys.argv[1:] else "main")}
whole = {"tests/test_structure.py", "tests/test_packaging.py"}
below = {t for t in chosen if not any(str(p) in chosen - {"tests"} for p in Path(t).parents)}
print(*sorted((below - {"tests"}) | whole))  # noqa: T201
