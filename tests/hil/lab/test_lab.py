"""The lab without booting it: what its machines are started with, and what they are built from."""

import stat
import subprocess
import sys
from pathlib import Path

import pytest
from foretrace.hil import connection
from foretrace.hil.drivers.linux import clock_source
from foretrace.hil.lab import (
    build,
    build_cache,
    campaign_recording,
    campaigns,
    cpio,
    debian,
    disk,
    host_kernel,
    kernel,
    qemu,
    staging,
    uml,
    wire,
)
from foretrace.sim.errors import DriverFault, HardwareUnavailable

CLOCK = {"uml": "timetravel", "qemu": "icount"}


@pytest.fixture
def empty(tmp_path, monkeypatch):
    """A lab in which nothing is built."""
    monkeypatch.setenv("FORETRACE_LAB", str(tmp_path))
    return tmp_path


@pytest.fixture
def built(empty):
    """A lab whose parts are there by name."""
    for name in (
        build_cache.UML_KERNEL,
        build_cache.GUEST_KERNEL,
        build_cache.GUEST_INITRD,
        build_cache.GUEST_DISK,
    ):
        (empty / name).touch()
    for name in (build_cache.ROOT, qemu.PROGRAM):
        (empty / name).mkdir()
    return empty


def test_a_lab_that_is_not_built_says_how_to_build_it(empty):
    with pytest.raises(HardwareUnavailable, match=r"linux\.uml is not there; .* foretrace lab up"):
        uml.command({})


def test_a_machine_that_is_not_built_is_no_device(empty, tmp_path):
    command = [sys.executable, "-P", "-m", "foretrace.hil.lab", "uml", "ends=2"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 4
    assert "foretrace lab up" in done.stderr


def test_an_unknown_machine_is_refused(empty):
    with pytest.raises(DriverFault, match="no machine 'umll'; one of uml, qemu"):
        build.build_machines(["umll"], False, print)


@pytest.mark.parametrize(
    ("there", "said"),
    [
        ((), "no apt-get here, .* driver: recorded"),
        (("apt-get", "dpkg-deb"), "as root: apt-get install .*gcc .*bc flex bison .*e2fsprogs"),
    ],
)
def test_missing_build_tools_are_named_before_anything_is_downloaded(
    empty, monkeypatch, there, said
):
    programs = empty / "bin"
    programs.mkdir()
    for name in there:
        (programs / name).touch(mode=0o755)
    monkeypatch.setenv("PATH", str(programs))
    with pytest.raises(HardwareUnavailable, match=said):
        build.build_machines([], False, print)
    assert not (empty / "apt").exists()
    assert build.unbuilt_machines() == ["uml", "qemu"]


def test_a_built_lab_needs_no_packages(built, monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert build.unbuilt_machines() == []
    assert build.build_machines([], False, print) == ["uml", "qemu"]


def test_a_machine_that_does_not_boot_is_named_with_its_last_words_and_a_cure(built):
    kernel = built / build_cache.UML_KERNEL
    kernel.write_text("#!/bin/sh\necho 'ptrace: Operation not permitted' >&2\nexit 1\n")
    for path in (built, kernel):
        path.chmod(0o755)
    with pytest.raises(DriverFault, match=r"lab: uml does not boot: .*; .*ptrace.*--again"):
        build.boot_test_report("uml")


def test_a_part_with_changed_inputs_is_rebuilt(built, monkeypatch):
    step = build.STEPS["uml"][1]
    build_cache.record_recipe(step.parts[0], step.recipe)
    assert build.unbuilt_machines() == []
    monkeypatch.setattr(kernel, "SOURCE", "linux-source-7.2")
    assert build.unbuilt_machines() == ["uml"]
    assert not step.is_built


def half_built(name):
    with build_cache.replacing_part(name) as half:
        half.mkdir()
        raise ZeroDivisionError("the power goes")


def test_a_part_is_built_only_if_all_its_files_exist(empty):
    with pytest.raises(ZeroDivisionError):
        half_built("root")
    assert not (empty / "root").exists()
    for text in ("old", "new"):
        with build_cache.replacing_part("root") as whole:
            whole.mkdir()
            (whole / "text").write_text(text)
    assert (build_cache.built_file_path("root") / "text").read_text() == "new"


def test_virtual_time_is_on_the_command_line(built):
    words = uml.command({"ends": "3"})
    assert "time-travel=inf-cpu" in words
    assert "lab.ends=3" in words
    assert "ro" in words
    assert clock_source.clock_of_this_machine(" ".join(words)) == "timetravel"


def test_the_root_of_a_machine_and_its_share_are_read_only(built):
    words = qemu.command({})
    assert any(w.startswith("file=") and w.endswith("readonly=on") for w in words)
    assert any(w.startswith("local,") and w.endswith("readonly=on") for w in words)
    assert not any("hostfwd" in w or w == "-netdev" for w in words)


@pytest.mark.parametrize(("settings", "expected"), [({}, "icount"), ({"clock": "wall"}, "wall")])
def test_the_clock_is_what_the_machine_was_started_with(built, settings, expected):
    words = qemu.command(settings)
    assert clock_source.clock_of_this_machine(words[words.index("-append") + 1]) == expected
    assert ("-icount" in words) == (expected == "icount")


def test_the_expander_comes_when_it_is_asked_for(built):
    assert not any("cxl-type3" in w for w in qemu.command({}))
    assert any("cxl-type3" in w for w in qemu.command({"cxl": "1"}))


@pytest.mark.parametrize(("machine", "setting", "cure"), [
    (uml, {"vlan": "100"}, "of uml has no VLANs; take lab: qemu"),
    (uml, {"wire": "a", "host": "1"}, "so no wire can connect it; use lab: qemu clock=wall"),
    (qemu, {"provider": "siw"}, "has no soft-iWARP; take lab: uml"),
])  # fmt: skip
def test_features_a_kernel_lacks_are_refused_before_booting(built, machine, setting, cure):
    with pytest.raises(DriverFault, match=f"^unsupported: lab: .*{cure}"):
        machine.command(setting)


WIRED = {"clock": "wall", "wire": "pair", "host": "1"}


def test_two_machines_at_a_wire_send_to_each_others_socket_and_nowhere_else(built):
    words = [qemu.command({**WIRED, "host": host}) for host in "12"]
    links = [dict(p.split("=", 1) for p in w[w.index("-netdev") + 1].split(",")[1:]) for w in words]
    paths = [(link["local.path"], link["remote.path"]) for link in links]
    assert paths[0] == paths[1][::-1]
    assert {link["local.type"] for link in links} == {"unix"}
    folder = Path(paths[0][0]).parent
    assert folder.is_relative_to(built)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert "mac=02:00:00:00:00:02" in " ".join(words[1])


@pytest.mark.parametrize(("said", "why"), [
    ({"clock": "icount"}, "share no time; set clock=wall"),
    ({"host": "3"}, "set host=1 in one and host=2 in the other"),
    ({"wire": "../elsewhere"}, "a wire has a plain name"),
    ({"vlan": "100"}, "one device with one address; leave out vlan"),
])  # fmt: skip
def test_a_wire_that_makes_no_sense_is_refused_before_anything_is_booted(built, said, why):
    with pytest.raises(DriverFault, match=f"^unsupported: lab: .*{why}"):
        qemu.command({**WIRED, **said})
    assert not (built / "wires").exists()


def test_one_end_of_a_wire_is_one_machines(built):
    with wire.lock_wire_end(WIRED):
        command = [sys.executable, "-P", "-m", "foretrace.hil.lab", "qemu"]
        command += [f"{key}={value}" for key, value in WIRED.items()]
        done = subprocess.run(command, capture_output=True, text=True)
        with wire.lock_wire_end({**WIRED, "host": "2"}), wire.lock_wire_end({}):
            pass
    assert done.returncode == 4
    assert "busy: lab-wire-pair-host1: measured by process" in done.stderr


def test_a_machine_that_a_signal_ends_ends_its_agent_by_the_same():
    program = ("from foretrace.hil.lab import __main__ as lab; "
               "lab.MACHINES['short'] = lambda s: ['/bin/sh', '-c', 'kill -9 $$']; "
               "lab.main(['short'])")  # fmt: skip
    done = subprocess.run([sys.executable, "-c", program], stdin=subprocess.DEVNULL)
    assert done.returncode == -9


def test_the_share_holds_the_agent_and_can_be_read_by_all(empty):
    folder = staging.stage_agent_files()
    assert staging.stage_agent_files() == folder
    assert (folder / "foretrace/hil/agent/command.py").is_file()
    assert not (folder / "foretrace/scenarios").exists()
    assert folder.stat().st_mode & stat.S_IROTH


def test_the_namespaces_of_the_host_take_no_settings():
    with pytest.raises(ValueError, match="takes no settings"):
        host_kernel.command({"ends": "2"})


def test_a_cpio_archive_unpacks_to_its_input(tmp_path):
    (tmp_path / "first/bin").mkdir(parents=True)
    (tmp_path / "first/bin/tool").write_bytes(b"12345")
    (tmp_path / "first/link").symlink_to("bin/tool")
    data, found, at = cpio.cpio_archive(tmp_path / "first"), {}, 0
    while True:
        head = [int(data[at + 6 + 8 * k : at + 14 + 8 * k], 16) for k in range(13)]
        name = data[at + 110 : at + 110 + head[11] - 1].decode()
        at += -(-(110 + head[11]) // 4) * 4
        if name == "TRAILER!!!":
            break
        found[name] = (head[1], data[at : at + head[6]])
        at += -(-head[6] // 4) * 4
    assert found["bin/tool"][1] == b"12345"
    assert found["link"][1] == b"bin/tool"
    assert stat.S_ISDIR(found["bin"][0])
    assert stat.S_ISCHR(found["dev/console"][0])


def test_the_first_root_waits_for_the_disk():
    assert "until /bin/busybox test -b /dev/vda" in disk.INIT


def test_a_failing_step_says_what_failed():
    with pytest.raises(HardwareUnavailable, match="unpacking failed: "):
        debian.run_build_step(["false"], doing="unpacking")
    with pytest.raises(HardwareUnavailable, match=r"no tool-that-is-not-there here .*apt"):
        debian.run_build_step(["tool-that-is-not-there"])


def test_the_mirror_is_the_one_that_apt_uses(monkeypatch, tmp_path):
    apt = tmp_path / "apt-get"
    apt.write_text("#!/bin/sh\necho 'Debian|Debian-Security|http://b.example/s'\n"
                   "echo 'Debian|Debian|http://a.example/debian'\n")  # fmt: skip
    apt.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert debian.debian_mirror() == "http://a.example/debian"


def test_no_host_is_named_in_the_lab():
    for file in (staging.PACKAGE / "hil/lab").rglob("*"):
        if file.suffix in {".py", ".sh", ".config"}:
            assert "http" not in file.read_text(), file


def test_versions_are_kept_beside_what_was_built(empty):
    build_cache.add_versions({"uml": "linux-source 1"})
    build_cache.add_versions({"qemu": "qemu 2"})
    assert build_cache.built_versions() == {"uml": "linux-source 1", "qemu": "qemu 2"}


def test_a_work_list_that_is_not_there_is_refused():
    with pytest.raises(DriverFault, match="no work list 'x'; there are: timetravel-100gbit"):
        campaigns.select_campaigns(["x"])


@pytest.mark.parametrize(
    "name", sorted(n for n in campaigns.ALL if (campaign_recording.KEPT / f"{n}.rec.gz").exists())
)
def test_every_recording_says_which_clock_and_what_it_was_made_of(name):
    recording = campaign_recording.bundled_recording(name)
    planned = campaigns.ALL[name]
    assert recording.ended == ""
    assert recording.driver == planned.work.driver
    assert {s.clock for s in recording.samples} == {CLOCK[planned.machine]}
    assert {s.key for s in recording.samples} == {r.key for r in planned.work.requests}
    assert len({s.start for s in recording.samples}) >= planned.work.starts
    assert any(key.startswith(planned.machine) for key in recording.versions)
    assert (campaign_recording.KEPT / f"{name}.rec.gz").stat().st_size < 40_000


def test_a_machine_of_the_lab_is_an_agent_with_a_name(empty, monkeypatch, tmp_path):
    (tmp_path / "foretrace").mkdir()
    (tmp_path / "foretrace/agents.yaml").write_text("agents:\n  virtual: {lab: uml ends=5}\n")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    with pytest.raises(DriverFault, match="foretrace lab up"):
        connection.connect_driver("verbs", "virtual")
