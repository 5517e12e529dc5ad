"""Whatever happens, every file that the command writes is whole or as it was, with its mode.

Outputs are those that `bearing help --json` lists, so that a new option is tested without a line here.
"""

import errno
import itertools
import os
import resource
import shutil
import signal
import stat
import subprocess
import unittest

import npy
import support
from support import COMMAND, LLAMA, SPEC, run

FAULTS = os.environ["BEARING_FAULTS"]
SMALL = ("--heads", "2", "--dim", "8", "--length", "16")
MODE = 0o640
OLD = b"what was there before"
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGALRM)


class Outputs(support.Base):
    def setUp(self):
        super().setUp()
        for name, shape in (("q", [2, 3, 4]), ("k", [1, 3, 4]), ("v", [1, 3, 4]), ("d_out", [2, 3, 4])):
            npy.write(self.path(f"{name}.npy"), "<f4", shape, self.values(2 * 3 * 4 if shape[0] == 2 else 12))
        npy.write(self.path("sinks.npy"), "<f4", [2], self.values(2))
        self.path("o").mkdir()

    def base(self, command):
        """Arguments that leave nothing but outputs to say."""
        q, k, v, d_out, sinks = (self.path(f"{name}.npy") for name in ("q", "k", "v", "d_out", "sinks"))
        return {
            "config": [LLAMA],
            "rotate": ["--rope", SPEC, "--q", q, "--k", k],
            "attend": ["--q", q, "--k", k, "--v", v, "--mask", "causal", "--sinks", sinks, "--d-out", d_out],
            "list": [],
            "check": ["nope", *SMALL],
            "compare": ["nope", "alibi", *SMALL],
            "choose": ["--task", "unordered"],  # whose answer has no time in it
            "table": ["alibi", *SMALL, "--format", "npy"],
            "plot": ["curves", "sinusoidal", *SMALL[2:], "--format", "json"],
            "report": ["nope", *SMALL, "--no-pictures"],
            "myths": ["shaw", "--json"],
            "completion": ["fish"],
            "help": [],
        }[command]

    def outputs(self, command):
        """Each output option with a file of its own."""
        return {option["name"]: self.path("o") / (option["name"].strip("-") + ".npy")
                for option in self.commands()[command] if option["takes"] == "output file"}

    def everywhere(self):
        """(command, arguments, files) for all commands that write."""
        for command in self.commands():
            outputs = self.outputs(command)
            if outputs:
                named = [word for option, file in outputs.items() for word in (option, file)]
                yield command, [command, *self.base(command), *named], list(outputs.values())

    def lay_out(self, files):
        """Old files with a mode of their own, and nothing else."""
        shutil.rmtree(self.path("o"))
        self.path("o").mkdir()
        for file in files:
            file.write_bytes(OLD)
            file.chmod(MODE)

    def fresh(self, arguments, files):
        """What a run without trouble writes."""
        self.lay_out(files)
        result = run(*arguments)
        self.assertEqual((result.returncode, result.stderr), (0, ""), arguments)
        self.expect_modes(files)
        return [file.read_bytes() for file in files]

    def expect_modes(self, files):
        for file in files:
            self.assertEqual(stat.S_IMODE(file.stat().st_mode), MODE)

    def expect_old_or_new(self, files, new, status, may_be_late=False):
        """All old after a failure, all new after none; a signal during the last renames ends the process after them."""
        got = [file.read_bytes() for file in files]
        wanted = [new] if status == 0 else [[OLD] * len(files)] + ([new] if may_be_late else [])
        self.assertIn(got, wanted)
        self.expect_modes(files)
        self.assertEqual(sorted(self.path("o").iterdir()), sorted(files))

    def test_every_command_that_writes_is_here(self):
        self.assertEqual([command for command, _, _ in self.everywhere()],
                         ["config", "rotate", "attend", "list", "check", "compare", "choose", "table", "plot", "report", "myths", "completion", "help"])

    def test_a_new_file_has_the_mode_that_the_caller_wants_for_new_files(self):
        before = os.umask(0o027)
        self.addCleanup(os.umask, before)
        for command, arguments, files in self.everywhere():
            with self.subTest(command):
                self.assertEqual(run(*arguments).returncode, 0)
                for file in files:
                    self.assertEqual(stat.S_IMODE(file.stat().st_mode), 0o640)

    def faulty(self, arguments, fault, at, unnamed, way=signal.SIG_DFL):
        """Runs with the fault at the `at`-th call that writes; None once there are no so many calls. Signals are
        treated in one way, as the caller may ignore some (nohup, a job in the background)."""
        hit = self.path("hit")
        hit.unlink(missing_ok=True)
        environment = {"LD_PRELOAD": FAULTS, "BEARING_FAULT": fault, "BEARING_FAULT_AT": str(at),
                       "BEARING_FAULT_HIT": str(hit)}
        if not unnamed:
            environment["BEARING_NO_TMPFILE"] = "1"
        result = run(*arguments, env=environment,
                     preexec_fn=lambda: [signal.signal(number, way) for number in SIGNALS])
        return result if hit.exists() else None

    def sweep(self, faults, check):
        """check(result, files, new) after each fault at each call of each command, with and without O_TMPFILE."""
        for command, arguments, files in self.everywhere():
            new = self.fresh(arguments, files)
            for unnamed in (True, False):
                calls = 0
                for at, fault in zip(itertools.count(1), itertools.cycle(faults)):
                    self.lay_out(files)
                    result = self.faulty(arguments, fault, at, unnamed)
                    if result is None:
                        break
                    calls = at
                    with self.subTest(command=command, fault=fault, at=at, unnamed=unnamed):
                        check(result, files, new)
                self.assertGreater(calls, 3 * len(files))

    def test_a_signal_at_any_call_leaves_files_whole_or_as_they_were(self):
        def check(result, files, new):
            self.assertIn(-result.returncode, [int(number) for number in SIGNALS])
            self.assertEqual(result.stderr, "")
            self.expect_old_or_new(files, new, result.returncode, may_be_late=True)

        self.sweep([f"signal {int(number)}" for number in SIGNALS], check)

    def test_a_signal_that_the_caller_ignores_is_ignored(self):
        for _, arguments, files in self.everywhere():
            new = self.fresh(arguments, files)
            result = self.faulty(arguments, f"signal {int(signal.SIGHUP)}", 2, True, signal.SIG_IGN)
            self.expect_old_or_new(files, new, result.returncode)
            self.assertEqual(result.returncode, 0)

    def test_a_failure_at_any_call_leaves_all_files_as_they_were(self):
        def check(result, files, new):
            self.assertIn(result.returncode, (0, 3))  # the owner, say, need not be kept
            self.expect_old_or_new(files, new, result.returncode)

        self.sweep([f"errno {number}" for number in (errno.ENOSPC, errno.EIO, errno.EDQUOT)], check)

    def test_nothing_but_a_hidden_file_is_left_by_a_kill(self):
        def check(result, files, new):
            self.assertEqual(result.returncode, -signal.SIGKILL)
            for file, whole in zip(files, new):
                self.assertIn(file.read_bytes(), (OLD, whole))
            self.expect_modes(files)
            left = [file.name for file in self.path("o").iterdir() if file not in files]
            self.assertEqual([name for name in left if not name.startswith(".bearing-")], [])

        self.sweep([f"signal {int(signal.SIGKILL)}"], check)

    def test_a_limit_on_the_size_of_files_is_an_error(self):
        for command, arguments, files in self.everywhere():
            new = self.fresh(arguments, files)
            for unnamed in (True, False):
                self.lay_out(files)
                environment = {**os.environ, **({} if unnamed else {"LD_PRELOAD": FAULTS, "BEARING_NO_TMPFILE": "1"})}
                result = subprocess.run([COMMAND, *map(str, arguments)], capture_output=True, text=True, cwd=support.SOURCE, env=environment,
                                        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64)))
                with self.subTest(command=command, unnamed=unnamed):
                    self.assertEqual(result.returncode, 3, result.stderr)
                    self.assertIn("cannot be written: File too large", result.stderr)
                    self.expect_old_or_new(files, new, 3)

    def test_standard_streams_that_are_full_or_closed_do_no_harm(self):
        reader, broken = os.pipe()
        os.close(reader)
        self.addCleanup(os.close, broken)
        full = os.open("/dev/full", os.O_WRONLY)
        self.addCleanup(os.close, full)
        ways = {"closed": os.close, "full": lambda stream: os.dup2(full, stream),
                "broken": lambda stream: os.dup2(broken, stream)}
        def start(arguments, way, streams):
            return subprocess.run([COMMAND, *map(str, arguments)], cwd=support.SOURCE, capture_output=True,
                                  preexec_fn=lambda: [ways[way](stream) for stream in streams])

        for command, arguments, files in self.everywhere():
            new = self.fresh(arguments, files)
            for streams, way in itertools.product(((0,), (1,), (2,), (0, 1, 2)), ways):
                self.lay_out(files)
                process = start(arguments, way, streams)
                with self.subTest(command=command, streams=streams, way=way):
                    prints = command == "attend" and 1 in streams
                    wanted = 0 if not prints else -signal.SIGPIPE if way == "broken" else 3
                    self.assertEqual(process.returncode, wanted, process.stderr)
                    self.expect_old_or_new(files, new, process.returncode)

    def test_an_error_can_be_told_to_nobody(self):
        for way in ("2>&-", "2>/dev/full", ">&- 2>&-", "<&- >&- 2>&-"):
            unmet = 3 if " " in way else 1  # without standard output the report comes first to fail
            for arguments, status in (("config none.json", 3), ("frob", 2), ("check nope --require norm", unmet)):
                shell = subprocess.run(["sh", "-c", f'"$0" {arguments} {way}', COMMAND], stdout=subprocess.PIPE)
                self.assertEqual(shell.returncode, status, (way, arguments))

    def test_two_outputs_that_are_one_file_are_refused_before_anything_is_written(self):
        self.path("here").symlink_to("o")
        for command, arguments, _ in self.everywhere():
            for one, other in itertools.combinations(self.outputs(command).items(), 2):
                name = other[1].name
                spellings = [other[1], f"{other[1].parent}/./{name}", self.path("here") / name, other[1].parent / "../o" / name]
                if not other[1].exists():
                    spellings.append(other[1].parent / name.upper())
                for spelling in spellings:
                    with self.subTest(command=command, one=one[0], other=other[0], spelling=str(spelling)):
                        given = [spelling if word == one[1] else word for word in arguments]
                        self.expect_error(2, [one[0], other[0], "must be different files"], *given)
                        self.assertEqual(list(self.path("o").iterdir()), [])
                other[1].write_bytes(OLD)
                for link in (os.symlink, os.link):
                    link(other[1], one[1])
                    with self.subTest(command=command, one=one[0], other=other[0], link=link):
                        self.expect_error(2, "must be different files", *arguments)
                        self.assertEqual(one[1].read_bytes(), OLD)
                    one[1].unlink()
                other[1].unlink()

    def test_a_gradient_of_an_encoding_is_an_output_too(self):
        npy.write(self.path("slopes.npy"), "<f4", [2], [0.5, 0.25])
        spec = f"alibi_learned:slopes={self.path('slopes.npy')},d_slopes={self.path('o')}/./d_q.npy"
        self.expect_error(2, "--d-q and --encoding must be different files", "attend", *self.base("attend"), "--encoding", spec,
                          "--d-q", self.path("o") / "d_q.npy")
        self.assertEqual(list(self.path("o").iterdir()), [])

    def test_links_are_followed_and_their_loops_are_errors(self):
        file, link, other = (self.path("o") / name for name in ("file", "link", "other"))
        for command, arguments, files in self.everywhere():
            with self.subTest(command):
                first = files[0]
                given = [link if word == first else word for word in arguments]
                link.symlink_to("file")
                self.assertEqual(run(*given).returncode, 0)
                self.assertTrue(link.is_symlink() and file.is_file())
                os.link(file, other)
                file.write_bytes(OLD)
                self.assertEqual(run(*given).returncode, 0)
                self.assertNotEqual(file.read_bytes(), OLD)
                self.assertEqual(other.read_bytes(), OLD)  # a name of its own keeps what it had
                file.unlink()
                file.symlink_to("link")
                self.expect_error(3, "Too many levels of symbolic links", *given)
                self.assertEqual((os.readlink(link), os.readlink(file)), ("file", "link"))
                self.lay_out([])

    def test_what_cannot_be_replaced_is_refused(self):
        for command, arguments, files in self.everywhere():
            for bad, text in ((self.path("o"), "is not a regular file"), ("/dev/full", "is not a regular file"),
                              (self.path("no/such"), "No such file or directory")):
                with self.subTest(command=command, bad=str(bad)):
                    self.lay_out(files[1:])
                    given = [bad if word == files[0] else word for word in arguments]
                    self.expect_error(3, ["cannot be written", text], *given)
                    self.expect_old_or_new(files[1:], [], 3)


if __name__ == "__main__":
    unittest.main()
