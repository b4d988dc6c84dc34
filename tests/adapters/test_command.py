"""Programs as classifiers, including programs that crash, hang, flood their output or do not stop."""

import gc
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from adapter_calls import answer_to, failure_on, make_adapter, scores_of

from adapters.base import AdapterError, AnswerError, NoAnswer, RawAnswer
from adapters.command import Command

HEAD = """
import base64, json, os, sys, time
def say(**content): print(json.dumps(content), flush=True)
def size(row): return len(base64.b64decode(row["image"]))
"""
FAITHFUL = "for line in sys.stdin: row = json.loads(line); say(id=row['id'], labels=[['size', size(row) / 1000]])"


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Callable[..., Command]]:
    running: list[Command] = []

    def make(body: str, **options: object) -> Command:
        script = tmp_path / "classify.py"
        script.write_text(HEAD + body)
        options = {"timeout": 10.0, "start": 10.0, **options}
        running.append(make_adapter("command", f"{sys.executable} -S classify.py", folder=tmp_path, **options))
        return running[-1]

    yield make
    for adapter in running:
        adapter.close()


def labels(adapter: Command, *images: bytes) -> list[dict[str, float]]:
    outcomes = adapter.send(images)
    assert all(isinstance(outcome, RawAnswer) for outcome in outcomes), outcomes
    return [scores_of(adapter, outcome) for outcome in outcomes]


def failure(adapter: Command) -> NoAnswer:
    return failure_on(adapter, b"x")


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def ended(pid: int) -> bool:
    for _ in range(300):
        if not alive(pid):
            return True
        time.sleep(0.01)
    return False


def test_one_process_answers_all_images(program):
    adapter = program(
        "for line in sys.stdin: row = json.loads(line); say(id=row['id'], labels=[[str(os.getpid()), 1]])"
    )
    first, second = answer_to(adapter, b"a"), answer_to(adapter, b"b")
    assert adapter.parse(first) == adapter.parse(second)
    assert json.loads(first.body)["id"] != json.loads(second.body)["id"]


def test_large_input_and_noisy_output_do_not_block(program):
    adapter = program("print('loading ' * 50_000); sys.stderr.write('warning ' * 50_000)\n" + FAITHFUL)
    assert labels(adapter, b"x" * 1000) == [{"size": 1.0}]
    echo = program("for line in sys.stdin: row = json.loads(line); say(id=row['id'], labels=[['mb', size(row) / 1e7]])")
    assert labels(echo, b"x" * 3_000_000) == [{"mb": 0.3}]


def test_batch_may_be_answered_in_any_order(program):
    adapter = program(
        "while rows := [json.loads(sys.stdin.readline()) for _ in range(3)]:\n"
        "    for row in reversed(rows): say(id=row['id'], labels=[['size', size(row) / 10]])",
        batch=3,
    )
    assert labels(adapter, b"a", b"bb", b"ccc") == [{"size": 0.1}, {"size": 0.2}, {"size": 0.3}]


def test_reported_error_fails_only_its_image(program):
    adapter = program(
        "for line in sys.stdin:\n"
        "    row = json.loads(line)\n"
        "    say(id=row['id'], error='no face') if size(row) == 1 else say(id=row['id'], labels=[])"
    )
    outcome = failure(adapter)
    assert outcome.reason == "the program reports: no face"
    assert outcome.reply is not None
    assert labels(adapter, b"xx") == [{}]


def test_crash_fails_its_image_and_the_program_restarts(program):
    adapter = program(
        "for line in sys.stdin:\n"
        "    row = json.loads(line)\n"
        "    if size(row) == 1: sys.exit('out of memory')\n"
        "    say(id=row['id'], labels=[['size', size(row) / 10]])"
    )
    assert labels(adapter, b"xx") == [{"size": 0.2}]
    assert failure(adapter).reason == "the program ended with exit code 1; it wrote: out of memory"
    assert labels(adapter, b"xxx") == [{"size": 0.3}]


def test_crash_in_a_batch_fails_only_its_image(program):
    adapter = program(
        "for line in sys.stdin:\n"
        "    row = json.loads(line)\n"
        "    if size(row) == 1: os.kill(os.getpid(), 9)\n"
        "    say(id=row['id'], labels=[['size', size(row) / 10]])",
        batch=4,
    )
    first, bad, third, fourth = adapter.send([b"xx", b"x", b"xxx", b"xxxx"])
    assert "killed by signal 9" in bad.reason
    assert [adapter.parse(answer)[0].score for answer in (first, third, fourth) if isinstance(answer, RawAnswer)] == [
        0.2, 0.3, 0.4,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("time.sleep(60)", "gave no answer within 0.2 s"),
        ('sys.stdin.readline(); print(\'{"id": "1", \', flush=True); time.sleep(9)', "starts with { and is not JSON"),
        ("sys.stdin.readline(); say(id='99', labels=[]); time.sleep(9)", "answered '99', an id that it was not given"),
        ("sys.stdin.readline(); say(id=['1'], labels=[]); time.sleep(9)", "an id that it was not given"),
        ("sys.stdin.readline(); say(labels=[]); time.sleep(9)", "answered 'None', an id that it was not given"),
        ("sys.stdin.readline(); os.close(1); time.sleep(9)", "killed by signal"),
        ("sys.stdin.readline(); print('x' * 5_000_000, flush=True); time.sleep(9)", "a line longer than"),
        ("sys.stdin.readline(); print('{\"id\": \"1\"', end='')", "is not JSON"),
        ("os.close(0); time.sleep(9)", "gave no answer within 0.2 s"),
    ],
)
def test_invalid_answer_is_explained_and_ends_the_process(program, tmp_path, body, reason):
    hangs = "no answer" in reason
    adapter = program(
        f"open('pid', 'w').write(str(os.getpid()))\n{body}", timeout=0.2 if hangs else 10, start=0 if hangs else 10
    )
    assert reason in failure(adapter).reason
    assert not (tmp_path / "pid").exists() or ended(int((tmp_path / "pid").read_text()))


def test_last_line_without_newline_is_read(program):
    adapter = program(
        "row = json.loads(sys.stdin.readline()); print(json.dumps({'id': row['id'], 'labels': []}), end='')"
    )
    assert labels(adapter, b"x") == [{}]
    assert labels(adapter, b"x") == [{}]  # by a new process, as the first has ended


def test_program_that_never_answers_stops_the_run(program):
    adapter = program("sys.exit('no module named torch')", restarts=2)
    assert "no module named torch" in failure(adapter).reason
    assert "no module named torch" in failure(adapter).reason
    with pytest.raises(AdapterError, match=r"3 times in a row.*no module named torch(.|\n)*Test it"):
        adapter.send([b"x"])


def test_out_of_range_score_is_refused_when_parsed(program):
    adapter = program("for line in sys.stdin: say(id=json.loads(line)['id'], labels=[['a', float('nan')]])")
    answer = answer_to(adapter, b"x")
    with pytest.raises(AnswerError, match="0-1"):
        adapter.parse(answer)


def test_several_processes_run_in_parallel(program):
    from concurrent.futures import ThreadPoolExecutor

    adapter = program(
        "for line in sys.stdin: time.sleep(0.1); say(id=json.loads(line)['id'], labels=[[str(os.getpid()), 1]])",
        processes=3,
    )
    assert adapter.capabilities.concurrency == 3
    with ThreadPoolExecutor(3) as pool:
        answers = list(pool.map(lambda image: labels(adapter, image)[0], [b"x"] * 9))
    assert len({name for answer in answers for name in answer}) == 3


@pytest.mark.parametrize("how", ["close", "forgotten"])
def test_no_process_survives_the_adapter(program, tmp_path, how):
    # It starts another program and obeys neither the end of its input nor SIGTERM.
    body = (
        "import signal, subprocess\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "child = subprocess.Popen(['sleep', '60'])\n"
        "open('pids', 'w').write(f'{os.getpid()} {child.pid}')\n"
        f"{FAITHFUL}\ntime.sleep(60)"
    )
    (tmp_path / "classify.py").write_text(HEAD + body)
    adapter = make_adapter("command", f"{sys.executable} -S classify.py", folder=tmp_path)
    labels(adapter, b"x")
    pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
    assert all(alive(pid) for pid in pids)
    for running in adapter._running:
        running.stop(grace=0)  # without the grace period of two seconds
    adapter.close() if how == "close" else None
    del adapter
    gc.collect()
    assert all(ended(pid) for pid in pids)


@pytest.mark.parametrize("end", ["pass", "os._exit(1)", "os.kill(os.getpid(), 9)"])
def test_no_process_survives_the_end_of_the_audit(tmp_path, end):
    (tmp_path / "classify.py").write_text(f"{HEAD}open('pid', 'w').write(str(os.getpid()))\n{FAITHFUL}")
    code = (
        "import os, sys; from adapters import registry\n"
        f"options = {{'folder': {str(tmp_path)!r}}}\n"
        f"adapter = registry.create('command:{sys.executable} -S classify.py', options)\n"
        f"adapter.send([b'x']); {end}"
    )
    subprocess.run([sys.executable, "-c", f"import sys; sys.path[:] = {sys.path!r}\n{code}"], check=False, timeout=30)
    assert ended(int((tmp_path / "pid").read_text()))


def test_command_is_not_passed_to_a_shell(tmp_path):
    script = tmp_path / "odd name; touch broken"
    script.write_text(f"#!{sys.executable}\n{HEAD}{FAITHFUL}")
    script.chmod(0o755)
    for target in (str(script), f"'./{script.name}' $(touch broken) '; touch broken'"):
        adapter = make_adapter("command", target, folder=tmp_path)
        assert labels(adapter, b"x" * 100) == [{"size": 0.1}]
        adapter.close()
    assert list(tmp_path.iterdir()) == [script]


def test_version_changes_with_the_files_of_the_command(program, tmp_path):
    first = program(FAITHFUL).model
    assert program(FAITHFUL).model == first
    assert program(FAITHFUL + "  # edited").model != first
    weights = tmp_path / "weights.bin"
    versions = set()
    for content in (b"1", b"2"):
        weights.write_bytes(content)
        words = f"{sys.executable} classify.py --weights=weights.bin {'x' * 5000}"
        versions.add(make_adapter("command", words, folder=tmp_path).model)
    assert len(versions) == 2
    assert program(FAITHFUL, version="2").parameters != program(FAITHFUL).parameters


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("", "needs a target: write command:"),
        ("no-such-program-anywhere", "no executable program 'no-such-program-anywhere': check the path"),
        ("./readable.txt", r"make it executable with chmod \+x"),
        ("'unclosed", "cannot be split"),
    ],
)
def test_command_that_cannot_run_is_explained(tmp_path, target, message):
    (tmp_path / "readable.txt").write_text("x")
    with pytest.raises(AdapterError, match=message):
        make_adapter("command", target, folder=tmp_path)


def test_invalid_options_are_refused():
    with pytest.raises(AdapterError, match=r"processes.*1-64"):
        make_adapter("command", sys.executable, processes=0)
