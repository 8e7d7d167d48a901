"""A server of our own on this machine: installed, or unpacked from its package."""

import os
import shutil
import subprocess

import pytest

PACKAGES = ("openssh-server", "libwrap0")
OURS = """\
{ grep -v ^sshd: /etc/passwd; echo sshd:x:65533:65534::/run/sshd:/usr/sbin/nologin; } >passwd
mount --bind passwd /etc/passwd && mount -t tmpfs run /run && mkdir -m 755 /run/sshd && exec "$@"
"""  # what root's sshd wants of a machine, in a namespace of ours


def unpacked(folder):
    """The server's program, and where its libraries are."""
    if installed := shutil.which("sshd", path=f"/usr/sbin:{os.environ['PATH']}"):
        return installed, ""
    try:
        subprocess.run(["apt-get", "-q", "download", *PACKAGES], cwd=folder, check=True,
                       capture_output=True)  # fmt: skip
        for package in folder.glob("*.deb"):
            subprocess.run(["dpkg-deb", "-x", package, folder], check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"NO SSH SERVER HERE, and none to unpack ({error}); apt install openssh-server")
    (libraries,) = {str(f.parent) for f in folder.rglob("libwrap.so.0")}
    return str(folder / "usr/sbin/sshd"), libraries
