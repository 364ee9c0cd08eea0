"""The bundle itself, and its two init containers."""

import os
import subprocess
from pathlib import Path

from tests.images.containers import HOME, UID, Pod

LOG_VOLUME = 2**20


def names(folder: Path) -> list[str]:
    """List *folder*."""
    return sorted(file.name for file in folder.iterdir())


def test_every_program_stands_alone(bundle_content: Path) -> None:
    """Nothing of the user's image is needed: no program names a loader."""
    programs = [file for file in (bundle_content / "bundle/bin").iterdir() if file.read_bytes().startswith(b"\x7fELF")]
    assert {file.name for file in programs} >= {"busybox", "scp", "sftp-server", "sh", "ssh-keygen", "sshd", "tini"}
    for program in programs:
        headers = subprocess.run(["readelf", "-lW", program], check=True, capture_output=True, text=True).stdout
        assert "INTERP" not in headers, program.name


def test_install_runs_again(pod: Pod, bundle_content: Path, tmp_path: Path) -> None:
    """After a restart of the node the init containers run over an earlier copy."""
    mounts = {"/bundle": (bundle_content / "bundle", "ro"), "/.gpu-runtime-dst": (pod.path("bundle"), "rw")}
    again = pod.run(["/bundle/bin/sh", "/bundle/libexec/install"], mounts, root=tmp_path / "bundle-image")
    assert again.returncode == 0, again.stderr
    assert names(pod.path("bundle")) == ["bin", "libexec", "tools"]
    assert names(pod.path("bundle") / "bin") == names(bundle_content / "bundle/bin")


def test_accounts_of_an_empty_image(pod: Pod) -> None:
    """Every id of the process has a name, the shell is the bundle's, and terminals belong to the kernel's own group."""
    pod.accounts()
    etc = pod.path("accounts")
    assert (etc / "passwd").read_text() == f"alice:x:{UID}:{UID}::{HOME}:/.gpu-runtime/bin/sh\n"
    assert (etc / "group").read_text() == "tty:x:5:\nalice:x:1000:\ngid2000:x:2000:\n"


def test_accounts_keep_those_of_the_image(pod: Pod) -> None:
    """The image's users stay, ours comes first, with the shell that the image gives this uid."""
    pod.image_file("/bin/zsh", "", 0o755)
    pod.image_file(
        "/etc/passwd", "root:x:0:0:root:/root:/bin/bash\nalice:x:7:7::/:/bin/sh\njovyan:x:1000:100::/h:/bin/zsh"
    )
    pod.image_file("/etc/group", "root:x:0:\ntty:x:99:\nalice:x:7:\nusers:x:2000:\n")
    pod.accounts()
    etc = pod.path("accounts")
    first, *rest = (etc / "passwd").read_text().splitlines()
    assert first == f"alice:x:{UID}:{UID}::{HOME}:/bin/zsh"
    assert rest == ["root:x:0:0:root:/root:/bin/bash", "jovyan:x:1000:100::/h:/bin/zsh"]
    assert (etc / "group").read_text().splitlines() == [
        "root:x:0:", "alice:x:7:", "users:x:2000:", "tty:x:5:", "gid1000:x:1000:"
    ]  # fmt: skip


def test_home_is_seeded_once(pod: Pod) -> None:
    """The image's home is there at the first start; what the user changed or removed since stays so."""
    pod.image_file(f"{HOME}/.config/tool", "of the image")
    pod.image_file(f"{HOME}/notebook", "of the image")
    os.chown(pod.path("image") / "home/alice", UID, UID)
    assert pod.accounts().returncode == 0
    home = pod.path("home")
    assert names(home) == [".config", ".gpu-runtime-seeded", "notebook"]
    (home / "notebook").unlink()
    (home / ".config/tool").write_text("of the user")
    pod.accounts()
    assert (home / ".config/tool").read_text() == "of the user"
    assert not (home / "notebook").exists()


def test_an_interrupted_seeding_is_done_again(pod: Pod) -> None:
    """Half a copy is thrown away, what had arrived is left alone, the rest comes."""
    pod.image_file(f"{HOME}/arrived", "of the image")
    pod.image_file(f"{HOME}/missing", "of the image")
    home = pod.path("home")
    half = home / ".gpu-runtime-seed"
    (half / "folder").mkdir(parents=True)
    (half / "folder/missing").touch()
    for path in (half / "folder", half):
        os.chown(path, UID, UID)
        path.chmod(0o555)
    (home / "arrived").write_text("of the user")
    assert pod.accounts().returncode == 0
    assert {file.name: file.read_text() for file in home.iterdir()} == {
        ".gpu-runtime-seeded": "", "arrived": "of the user", "missing": "of the image"
    }  # fmt: skip


def test_skel_where_the_image_has_no_home(pod: Pod) -> None:
    """An image without that home gives what it gives every new user."""
    pod.image_file("/etc/skel/.bashrc", "PS1=x")
    pod.accounts()
    assert (pod.path("home") / ".bashrc").read_text() == "PS1=x"


def test_what_the_user_may_not_read_is_left_out(pod: Pod) -> None:
    """A root-owned file in the image's home does not keep the unit from starting."""
    pod.image_file(f"{HOME}/secret", "root's", 0o600)
    pod.image_file(f"{HOME}/mine", "of the image")
    assert pod.accounts().returncode == 0
    assert not (pod.path("home") / "secret").exists()
    assert (pod.path("home") / "mine").exists()


def test_a_home_volume_that_is_too_small_is_an_error(pod: Pod) -> None:
    """Half a home is not passed off as one: the pod does not start, and a larger volume is seeded again."""
    pod.image_file(f"{HOME}/large", "x" * 300_000)
    home = pod.path("home")
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size=200k,uid={UID}", "home", home], check=True)
    try:
        assert pod.accounts().returncode != 0
        assert not (home / ".gpu-runtime-seeded").exists()
        subprocess.run(["mount", "-o", "remount,size=1m", home], check=True)
        assert pod.accounts().returncode == 0
        assert (home / "large").stat().st_size == 300_000
    finally:
        subprocess.run(["umount", home], check=True)


def test_the_log_never_fills_its_volume(bundle_content: Path, tmp_path: Path) -> None:
    """However much is logged, and by however many starts, both turns together stay under 1 MiB."""
    log = tmp_path / "sshd.log"
    log.write_text("x" * 400_000)
    keep_log = [bundle_content / "bundle/bin/sh", bundle_content / "bundle/libexec/keep-log", tmp_path]
    subprocess.run(keep_log, input=("y" * 9000 + "\r\n") * 90, text=True, check=True)
    sizes = [file.stat().st_size for file in tmp_path.glob("sshd.log*")]
    assert len(sizes) == 2
    assert LOG_VOLUME / 2 < sum(sizes) < LOG_VOLUME
    assert log.read_text().endswith("y\n")
