"""The command: what it reads, what it prints, how it ends."""

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from policy.checks import ALL
from policy.cli import main
from tests.policy.cases import CHECKS, FIXTURES, Case, cases, name, pod, walls

BAD = {**pod(hostPID=True, enableServiceLinks=True)}


def write(folder: Path, file: str, *documents: Any) -> str:
    """Write *documents* as YAML and return the path."""
    path = folder / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump_all(documents))
    return str(path)


@pytest.mark.parametrize("case", cases("fail"), ids=name)
def test_fixture_is_found(case: Case, capsys: pytest.CaptureFixture[str]) -> None:
    """A file breaks on the terminal exactly what it breaks in the program."""
    assert main(["--format", "json", str(case.file)]) == 1

    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(item["check"], item["message"]) for item in found] == case.expected


def test_clean(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing broken ends with 0 and says how much was judged."""
    assert main([str(FIXTURES / "privileged" / "pass-unset.yaml")]) == 0
    assert capsys.readouterr().out == "2 objects judged: 0 violations\n"


def test_record(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One JSON object a line, with the keys that pipelines rely on; documents count from 0."""
    file = write(tmp_path, "a.yaml", walls(), pod(hostPID=True))

    main(["--format", "json", file])

    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line) == {
        "check": "host-namespaces",
        "severity": "critical",
        "kind": "Pod",
        "namespace": "lab-a",
        "name": "sample",
        "path": "spec.hostPID",
        "message": "pod: spec.hostPID is true; remove it",
        "file": file,
        "document": 1,
        "level": "mandatory",
    }


def test_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A line starts as a compiler's does, so that editors find the place."""
    file = write(tmp_path, "a.yaml", walls(), pod(hostPID=True))

    main([file])

    first, last = capsys.readouterr().out.splitlines()
    assert first.startswith(f"{file}:12: critical: Pod lab-a/sample: ")
    assert last == "2 objects judged: 1 violations"


def test_sarif(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Code hosts get every rule, and each result where it is."""
    file = write(tmp_path, "a.yaml", walls(), pod(hostPID=True))

    assert main(["--format", "sarif", file]) == 1

    (run,) = json.loads(capsys.readouterr().out)["runs"]
    (result,) = run["results"]
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == [check.ID for check in ALL]
    assert (result["ruleId"], result["level"]) == ("host-namespaces", "error")
    assert result["locations"][0]["physicalLocation"] == {
        "artifactLocation": {"uri": file},
        "region": {"startLine": 12},
    }


def test_folder_is_judged_as_one(tmp_path: Path) -> None:
    """The policy of one file walls the pod of another, in folders below too, YAML and JSON."""
    write(tmp_path, "walls/deny.yml", walls())
    (tmp_path / "pod.json").write_text(json.dumps(pod(), indent="\t"))

    assert main([str(tmp_path)]) == 0
    assert main([str(tmp_path / "pod.json")]) == 1


def test_standard_input(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """`kubectl get -o yaml | python -m policy -` works."""
    text = yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": [BAD, walls()]})
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))

    assert main(["--format", "json", "-"]) == 1
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(item["check"], item["path"], item["file"]) for item in found] == [
        ("host-namespaces", "items[0].spec.hostPID", "-"),
        ("service-links", "items[0].spec.enableServiceLinks", "-"),
    ]


@pytest.mark.parametrize(
    ("arguments", "checks"),
    [
        ([], ["host-namespaces", "service-links"]),
        (["--framework", "gpu-runtime"], ["host-namespaces", "service-links"]),
        (["--framework", "pss-baseline"], ["host-namespaces"]),
        (["--framework", "gpu"], []),
        (["--framework", "gpu", "--framework", "nsa"], ["host-namespaces"]),
    ],
)
def test_framework(arguments: list[str], checks: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A framework chooses its checks; several choose the checks of any."""
    file = write(tmp_path, "a.yaml", walls(), BAD)

    assert main(["--format", "json", *arguments, file]) == bool(checks)
    assert [json.loads(line)["check"] for line in capsys.readouterr().out.splitlines()] == checks


def test_levels(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The pack's configuration file works here too: advice is printed and breaks nothing."""
    file = write(tmp_path, "a.yaml", walls(), BAD)
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"law": {"levels": {"host-namespaces": "disabled", "service-links": "advisory"}}}))

    assert main(["--config", str(config), file]) == 0
    first, last = capsys.readouterr().out.splitlines()
    assert ": low (advisory): " in first
    assert last == "2 objects judged: 0 violations, 1 advisory"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{}", "it should have the form"),
        ('{"law": {}}', "it should have the form"),
        ('{"law": {"levels": {"privilegd": "disabled"}}}', "no check is called privilegd"),
        ('{"law": {"levels": {"privileged": "off"}}}', "no level is called so: privileged: off"),
        ("{", "expected the node content"),
    ],
)
def test_bad_levels(text: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A mistyped configuration switches nothing off; it ends the run."""
    file = write(tmp_path, "a.yaml", walls())
    config = tmp_path / "config.json"
    config.write_text(text)

    assert main(["--config", str(config), file]) == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: [", ":2: did not find expected node content"),
        ("a: 1\nb: 2\n", ":1: no Kubernetes object"),
        ("apiVersion: v1\nkind: Pod\n---\n- 1\n", ":4: no Kubernetes object"),
        ("apiVersion: v1\nkind: Pod\nkind: Secret\n", ":3: key 'kind' is there twice"),
        ('{"apiVersion": "v1", "kind": "Pod", "kind": "Secret"}', ":1: key 'kind' is there twice"),
        ("apiVersion: v1\nkind: Pod\nspec: &a\n  b: *a\n", "an alias contains itself"),
        ("a: " + "[" * 5000, ":1: nested deeper than 100 levels"),
        ("a: !!python/object:os.system {}", ":1: could not determine a constructor"),
        ("a: 1\n\x00", ":2: control characters are not allowed"),
        (b"\xff\xfe\xfd", ":1: no UTF-8 text"),
        ("".join(f"a{i}: &a{i} [{f'*a{i - 1},' * 9 if i else 'x'}]\n" for i in range(12)), "too large"),
    ],
)
def test_unreadable(text: str | bytes, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What cannot be read for sure is no clean bill: status 2, file, line and reason, and no traceback."""
    file = tmp_path / "a.yaml"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())

    assert main([str(file)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"policy: {file}:")
    assert words in captured.err


def test_missing_and_empty(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A path that holds nothing to judge is a mistake, not a success."""
    assert main([str(tmp_path / "none.yaml")]) == 2
    assert main([str(tmp_path)]) == 2
    assert capsys.readouterr().err == (
        f"policy: {tmp_path}/none.yaml: No such file or directory\n"
        f"policy: {tmp_path}: no .yaml, .yml, .json file in this folder\n"
    )


def test_nothing_to_judge_is_a_mistake(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An empty file, or one of comments, judges nothing: a gate must not take that for clean."""
    file = tmp_path / "empty.yaml"
    file.write_text("# nothing here\n---\n")

    assert main([str(file)]) == 2
    assert "no object to judge" in capsys.readouterr().err


def test_empty_documents_are_skipped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Templates leave empty documents behind; they still count in the numbering."""
    file = tmp_path / "a.yaml"
    file.write_text(f"---\n# nothing\n---\n{yaml.safe_dump(BAD)}---\n")

    main(["--format", "json", str(file)])

    assert {json.loads(line)["document"] for line in capsys.readouterr().out.splitlines()} == {1}


@pytest.mark.parametrize("arguments", [[], ["--framework", "none", "x"], ["--format", "xml", "x"], ["--nope"]])
def test_wrong_command_line(arguments: list[str]) -> None:
    """A mistyped command is neither clean nor a finding."""
    with pytest.raises(SystemExit, match="2"):
        main(arguments)


def test_list_checks(capsys: pytest.CaptureFixture[str]) -> None:
    """The catalogue names every check."""
    assert main(["--list-checks"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == [check.ID for check in ALL]


def test_as_a_command(tmp_path: Path) -> None:
    """`python -m policy` is the command, although the engine starts the same file as a pack."""
    file = write(tmp_path, "a.yaml", walls(), BAD)
    done = subprocess.run(
        [sys.executable, "-m", "policy", file],
        cwd=CHECKS.parents[1],
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stderr) == (1, "")
    assert "2 objects judged: 2 violations" in done.stdout
