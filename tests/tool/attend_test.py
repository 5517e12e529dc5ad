"""Tests of `bearing attend` as its users run it."""

import json
import math
import re
import unittest

import npy
import support
from support import bfloat16, from_bfloat16, rotated, run

INF = float("inf")
HEADS, KV_HEADS, TIME, DIM = 2, 1, 6, 4


def attention(q, k, v, sizes, scale=None, bias=lambda h, i, j: 0.0, visible=lambda h, i, j: True, sink=None,
              value=lambda h, i, j, d: 0.0):
    """The definition, on contiguous [heads, time, dim]; sizes: heads, kv_heads, q_len, k_len, dim. Gives out, lse."""
    heads, kv_heads, q_len, k_len, dim = sizes
    scale = dim**-0.5 if scale is None else scale
    out, lse = [], []
    for h in range(heads):
        g = h // (heads // kv_heads)
        for i in range(q_len):
            scores = []
            for j in range(k_len):
                product = sum(q[(h * q_len + i) * dim + d] * k[(g * k_len + j) * dim + d] for d in range(dim))
                scores.append(scale * product + bias(h, i, j) if visible(h, i, j) else -INF)
            top = max(scores + ([sink[h]] if sink else []))
            if top == -INF:
                out += [0.0] * dim
                lse.append(-INF)
                continue
            weights = [math.exp(s - top) for s in scores]
            total = sum(weights) + (math.exp(sink[h] - top) if sink else 0)
            lse.append(top + math.log(total))
            for d in range(dim):
                out.append(sum(w * (v[(g * k_len + j) * dim + d] + value(h, i, j, d))
                               for j, w in enumerate(weights)) / total)
    return out, lse


class Attend(support.Base):
    def setUp(self):
        super().setUp()
        self.q = self.tensor("q.npy", [HEADS, TIME, DIM])
        self.k = self.tensor("k.npy", [KV_HEADS, TIME, DIM])
        self.v = self.tensor("v.npy", [KV_HEADS, TIME, DIM])
        self.sizes = (HEADS, KV_HEADS, TIME, TIME, DIM)

    def tensor(self, name, shape, descr="<f8"):
        values = self.values(math.prod(shape))
        npy.write(self.path(name), descr, shape, values)
        return values

    def files(self):
        return ["--q", self.path("q.npy"), "--k", self.path("k.npy"), "--v", self.path("v.npy")]

    def attend(self, *arguments, mask="none", out="out.npy"):
        result = run("attend", *self.files(), "--mask", mask, "--out", self.path(out), *arguments)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return npy.read(self.path(out))[2]

    def expect_attention(self, got, relative=2.0**-40, **what):
        """float64 against Python's: sums of a few terms, far from 2^-40."""
        self.expect_close(got, attention(self.q, self.k, self.v, self.sizes, **what)[0], relative)

    # what is computed

    def test_an_output_is_no_larger_than_its_files_can_ask_for(self):
        def attend(q, k, v):
            for name, shape in (("q", q), ("k", k), ("v", v)):
                npy.write(self.path(f"{name}.npy"), "<f4", shape, [0] * math.prod(shape))
            return ["attend", *(word for name in "qkv" for word in (f"--{name}", self.path(f"{name}.npy"))), "--mask", "none",
                    "--out", self.path("o.npy")]

        self.assertEqual(run(*attend((1, 4), (0, 4), (0, 6))).returncode, 0)
        self.assertEqual(npy.read(self.path("o.npy"))[1], [1, 6])
        self.expect_error(3, "v.npy: must have a last extent of at most 65536, got [0, 70000]", *attend((1, 4), (0, 4), (0, 70000)))
        self.expect_error(3, "v.npy: has no numbers: the product", *attend((1, 4), (0, 4), (0, 250_000_000)))
        self.expect_error(3, "v.npy: has no numbers: the product", *attend((1, 1, 1024, 0), (1, 1, 0, 0), (1, 1, 0, (1 << 54) + 1)))
        self.expect_error(3, "q.npy: has no numbers: the output must have at most 2^26, got [1, 1, 65536, 0] times 60000",
                          *attend((1, 1, 65536, 0), (1, 1, 0, 0), (1, 1, 0, 60_000)))
        self.expect_error(3, "k.npy: has no numbers: the output must have at most 2^26, got [4096, 1] times 65536",
                          *attend((4096, 1), (0, 1), (0, 65536)))

    def test_attention_is_the_softmax_of_scaled_products_times_values(self):
        self.expect_attention(self.attend())
        self.expect_attention(self.attend("--scale", "0.25"), scale=0.25)

    def test_attend_takes_every_type_and_layout_and_answers_in_it(self):
        wanted, lse = attention(self.q, self.k, self.v, self.sizes)
        # Inputs and results round to the type: a few units of it, weighted averages of values of size 1.
        for descr, unit, flags in (("<f8", 2.0**-52, []), ("<f4", 2.0**-23, []), ("<f2", 2.0**-10, []),
                                   ("<u2", 2.0**-7, ["--bf16"])):
            for name, values, heads in (("q.npy", self.q, HEADS), ("k.npy", self.k, KV_HEADS),
                                        ("v.npy", self.v, KV_HEADS)):
                numbers = [bfloat16(x) for x in values] if flags else values
                moved = [numbers[(h * TIME + t) * DIM + d] for t in range(TIME) for h in range(heads)
                         for d in range(DIM)]
                npy.write(self.path(name), descr, [1, TIME, heads, DIM], moved)
            self.attend("--layout", "bthd", "--lse", self.path("lse.npy"), *flags)
            got_descr, shape, got = npy.read(self.path("out.npy"))
            self.assertEqual((got_descr, shape), (descr, [1, TIME, HEADS, DIM]))
            got = [from_bfloat16(x) for x in got] if flags else got
            moved = [wanted[(h * TIME + t) * DIM + d] for t in range(TIME) for h in range(HEADS) for d in range(DIM)]
            self.expect_close(got, moved, 16 * unit)
            lse_descr, shape, got = npy.read(self.path("lse.npy"))
            self.assertEqual((lse_descr, shape), ("<f8" if descr == "<f8" else "<f4", [1, HEADS, TIME]))
            self.expect_close(got, lse, 16 * unit)

    def test_masks_are_by_position_or_by_index(self):
        self.expect_attention(self.attend(mask="causal"), visible=lambda h, i, j: j <= i)
        self.expect_attention(self.attend("--q-positions", "2", mask="causal"), visible=lambda h, i, j: j <= i + 2)
        self.expect_attention(self.attend("--window", "1,2"), visible=lambda h, i, j: -1 <= j - i <= 2)
        self.expect_attention(self.attend("--window", "1", mask="causal"), visible=lambda h, i, j: 0 <= i - j <= 1)
        self.q = self.tensor("q.npy", [HEADS, 2, DIM])
        self.sizes = (HEADS, KV_HEADS, 2, TIME, DIM)
        self.expect_attention(self.attend(mask="causal-top-left"), visible=lambda h, i, j: j <= i)
        self.expect_attention(self.attend(mask="causal-bottom-right"), visible=lambda h, i, j: j <= i + 4)

    def test_bands_hide_keys_and_regions_turn_them_elsewhere(self):
        self.expect_attention(self.attend("--band", '{"begin": 2, "end": 4}'), visible=lambda h, i, j: 2 <= i - j < 4)
        chunk = '{"type": "DistanceBand", "begin": 0, "end": 1, "chunk": 4}'
        in_chunk = lambda h, i, j: j <= i and i // 4 == j // 4
        self.expect_attention(self.attend("--band", chunk, mask="causal"), visible=in_chunk)
        rope = ["--encoding", "rope:pairing=half"]
        turned = self.attend(*rope, mask="causal")
        far = '{"type": "ReRope", "window": 0}'  # all keys as if they stood where the query stands
        out = self.attend(*rope, "--regions", far, mask="causal")
        self.expect_attention(out, visible=lambda h, i, j: j <= i)
        self.assertNotEqual(out, turned)
        near = '{"type": "SelfExtend", "group": 2, "window": 6}'
        self.assertEqual(self.attend(*rope, "--regions", near, mask="causal"), turned)
        for option, text, wrong in (
            ("--regions", far, "encodings: must have one that turns queries and keys"),
            ("--regions", "far", "--regions:1:"),
            ("--regions", chunk, "must be one of DualChunk, SelfExtend, ReRope"),
            ("--band", far, "DistanceBand"),
        ):
            result = run("attend", *self.files(), "--mask", "causal", "--out", self.path("no.npy"), option, text)
            self.assertNotEqual(result.returncode, 0)
            self.assertIn(wrong, result.stderr)
        both = ["--regions", far, "--band", chunk, "--out", self.path("no.npy")]
        result = run("attend", *self.files(), "--mask", "causal", *rope, *both)
        self.assertEqual(result.returncode, 2)
        self.assertIn("--band and --regions exclude each other", result.stderr)

    def test_padding_packing_and_masks_from_files(self):
        self.expect_attention(self.attend("--k-lengths", "4"), visible=lambda h, i, j: j < 4)
        keys = [True, False, True, True, False, True]
        npy.write(self.path("keys.npy"), "|b1", [1, TIME], keys)
        self.expect_attention(self.attend("--key-mask", self.path("keys.npy")), visible=lambda h, i, j: keys[j])
        some = [self.random.random() < 0.6 for _ in range(TIME * TIME)]
        npy.write(self.path("some.npy"), "|b1", [1, 1, TIME, TIME], some)
        self.expect_attention(self.attend("--visible", self.path("some.npy")),
                              visible=lambda h, i, j: some[TIME * i + j])
        self.expect_attention(self.attend("--q-starts", "0,2,6", "--k-starts", "0,3,6"),
                              visible=lambda h, i, j: (i < 2) == (j < 3))

    def test_queries_that_see_no_key_give_0_and_are_counted(self):
        result = run("attend", *self.files(), "--mask", "none", "--k-lengths", "0", "--out", self.path("out.npy"))
        self.assertIn("12 queries see no key: their output is 0, their log-sum-exp -inf.\n", result.stdout)
        self.assertEqual(set(npy.read(self.path("out.npy"))[2]), {0.0})

    def test_a_paged_cache_is_read_by_its_block_table(self):
        wanted = self.attend()
        for name, values in (("k.npy", self.k), ("v.npy", self.v)):
            blocks = [values[8 * n : 8 * n + 8] for n in (2, 0, 1)]  # two keys of four numbers each
            npy.write(self.path(name), "<f8", [3, KV_HEADS, 2, DIM], sum(blocks, []))
        npy.write(self.path("table.npy"), "<i8", [1, 3], [1, 2, 0])
        # Keys in other blocks are summed in another order at most.
        self.expect_close(self.attend("--block-table", self.path("table.npy"), "--k-lengths", "6"), wanted, 2.0**-45)

    def test_sinks_and_soft_caps(self):
        sink = [0.5, -1.0]
        npy.write(self.path("sinks.npy"), "<f4", [HEADS], sink)
        self.expect_attention(self.attend("--sinks", self.path("sinks.npy")), sink=sink)
        products = attention_scores(self.q, self.k, self.sizes)
        capped = lambda h, i, j: 2 * math.tanh(products[h, i, j] / 2) - products[h, i, j]
        self.expect_attention(self.attend("--soft-cap", "2"), bias=capped)

    def test_encodings_by_formula(self):
        self.expect_attention(self.attend("--encoding", "alibi"),
                              bias=lambda h, i, j: -(2.0 ** (-4 * (h + 1))) * abs(i - j))
        table = self.tensor("t5.npy", [32, HEADS])
        bucket = lambda i, j: (16 if j > i else 0) + abs(i - j)  # distances below 8 have buckets of their own
        self.expect_attention(self.attend("--encoding", f"t5:table={self.path('t5.npy')}", "--scale", "1"), scale=1,
                              bias=lambda h, i, j: table[HEADS * bucket(i, j) + h])
        key, value = self.tensor("key.npy", [5, DIM]), self.tensor("value.npy", [5, DIM])
        row = lambda i, j: min(max(j - i, -2), 2) + 2
        shaw = f"shaw:clip=2,key={self.path('key.npy')},value={self.path('value.npy')}"
        dot = lambda h, i, j: sum(self.q[(h * TIME + i) * DIM + d] * key[row(i, j) * DIM + d] for d in range(DIM)) / 2
        add = lambda h, i, j, d: value[row(i, j) * DIM + d]
        self.expect_attention(self.attend("--encoding", shaw), bias=dot, value=add)

    def test_encodings_act_together(self):
        one = self.attend("--encoding", "rope:pairing=half,base=100", "--encoding", "alibi")
        q = rotated(self.q, (1, HEADS, TIME), DIM, [range(TIME)], 100)
        k = rotated(self.k, (1, KV_HEADS, TIME), DIM, [range(TIME)], 100)
        bias = lambda h, i, j: -(2.0 ** (-4 * (h + 1))) * abs(i - j)
        self.expect_close(one, attention(q, k, self.v, self.sizes, bias=bias)[0], 2.0**-40)
        spec = '{"head_dim": 4, "pairing": "half", "base": 100}'
        self.assertEqual(self.attend("--encoding", "alibi", "--encoding", f"rope:{spec}"), one)

    def test_scalings_of_the_rotation_are_keys(self):
        by_key = self.attend("--encoding", "rope_yarn:pairing=interleaved,factor=4,trained_length=16,truncate=false")
        spec = '{"head_dim": 4, "pairing": "interleaved", "scaling": {"type": "yarn", "factor": 4, ' \
               '"trained_length": 16, "truncate": false}}'
        self.assertEqual(by_key, self.attend("--encoding", f"rope:{spec}"))
        for name in ("short", "long"):
            npy.write(self.path(f"{name}.npy"), "<f8", [2], [1.0, 2.5] if name == "long" else [1.0, 1.0])
        longrope = f"rope_longrope:pairing=half,trained_length=64,short_factor={self.path('short.npy')}," \
                   f"long_factor={self.path('long.npy')}"
        self.assertNotEqual(self.attend("--encoding", longrope, "--length", "64"),
                            self.attend("--encoding", longrope, "--length", "65"))
        self.expect_error(2, "--length must be given", "attend", *self.files(), "--mask", "none", "--encoding",
                          longrope, "--out", self.path("x.npy"))

    def test_a_decode_step_is_the_last_row(self):
        all_rows = self.attend("--encoding", "rope:pairing=half", mask="causal")
        npy.write(self.path("q.npy"), "<f8", [HEADS, 1, DIM],
                  [x for h in range(HEADS) for x in self.q[(h * TIME + 5) * DIM : (h * TIME + 6) * DIM]])
        last = self.attend("--encoding", "rope:pairing=half", "--q-positions", "5", mask="causal")
        wanted = [x for h in range(HEADS) for x in all_rows[(h * TIME + 5) * DIM : (h * TIME + 6) * DIM]]
        self.expect_close(last, wanted, 2.0**-45)

    def test_any_number_of_threads_gives_the_same_bits(self):
        one = self.attend("--encoding", "alibi", mask="causal")
        for threads in ("2", "3", "0"):
            self.assertEqual(self.attend("--encoding", "alibi", "--threads", threads, mask="causal"), one)

    # the backward

    def gradients(self, *arguments):
        weight = self.tensor("d_out.npy", [HEADS, TIME, DIM])
        names = [f"d_{x}.npy" for x in "qkv"]
        pairs = sum((["--" + name[:3].replace("_", "-"), self.path(name)] for name in names), [])
        self.attend(*arguments, "--d-out", self.path("d_out.npy"), *pairs, mask="causal")
        loss = lambda: sum(w * o for w, o in zip(weight, self.attend(*arguments, mask="causal")))
        return [npy.read(self.path(name)) for name in names], loss

    def slope(self, file, index, loss):
        """The central difference, off by h²/6 of the third derivative and 2^-50/h: about 1e-9."""
        descr, shape, values = npy.read(file)
        sums = []
        for h in (1e-5, -1e-5):
            changed = list(values)
            changed[index] += h
            npy.write(file, descr, shape, changed)
            sums.append(loss())
        npy.write(file, descr, shape, values)
        return (sums[0] - sums[1]) / 2e-5

    def test_gradients_of_the_inputs_are_the_central_differences(self):
        grads, loss = self.gradients("--encoding", "rope:pairing=half", "--encoding", "alibi")
        for name, (descr, shape, values) in zip("qkv", grads):
            self.assertEqual((descr, shape), ("<f8", npy.read(self.path(f"{name}.npy"))[1]))
            for index in (0, 5, len(values) - 1):
                self.assertAlmostEqual(values[index], self.slope(self.path(f"{name}.npy"), index, loss), delta=1e-7)

    def test_sinks_have_a_gradient(self):
        npy.write(self.path("sinks.npy"), "<f8", [HEADS], [0.5, -1.0])
        sinks = ("--sinks", self.path("sinks.npy"))
        _, loss = self.gradients(*sinks)
        self.attend(*sinks, "--d-out", self.path("d_out.npy"), "--d-sinks", self.path("d_sinks.npy"), mask="causal")
        descr, shape, values = npy.read(self.path("d_sinks.npy"))
        self.assertEqual((descr, shape), ("<f8", [HEADS]))
        for head in range(HEADS):
            self.assertAlmostEqual(values[head], self.slope(self.path("sinks.npy"), head, loss), delta=1e-7)

    # every encoding

    def built(self, name):
        """A spec of an encoding, made of nothing but what error messages ask for; and its parameters' files."""
        keys = {"height": "2", "width": "3", "trained_length": "64", "first": "0", "pairing": "half", "factor": "2",
                "direction": "bidirectional", "axis": "0", "joined": "half"}
        sizes = {"axes": 2 if name in IMAGES else 1, "sets": HEADS, "hidden": 5, "d_model": 8, "mixed": 1, "buckets": 32, "rows": 2,
                 "mlp_width": 32, "time": TIME, "extent": 1024, "rank": 3, "length, and 1 with [CLS] untied": TIME + 1, "max_pos": 5}
        spec, files = {}, {}
        if name in ("deberta", "deberta_v2"):
            spec["max_relative_positions"] = "8"
        if name == "position_temperature":
            spec["length"] = "2"
        if name == "deberta_v2":
            spec["position_buckets"] = "4"
        for key in OPTIONAL.get(name, ()):  # of a wrong shape: the error says which one is right
            spec[key] = files[key] = self.path(f"{name}.{key}.npy")
            npy.write(files[key], "<i8" if key == "index" else "<f8", [1] * 5, [0])
        while True:
            text = name + (":" if spec else "") + ",".join(f"{key}={value}" for key, value in spec.items())
            result = run("attend", *self.arguments(text))
            if result.returncode == 0:
                return text, files
            asked = re.search(rf"--encoding {name}: ([\w, ]+)(=FILE| must be given|: must be)", result.stderr)
            if asked and asked.group(2) != "=FILE":
                key = next(key for key in asked.group(1).split(", ") if key not in spec)
                spec[key] = keys[key]
                continue
            key, names, extents = re.search(r"(\w+)(?:=FILE is missing: a .npy file of| must be) \[(.*)\] = \[(.*?)\]",
                                            result.stderr).groups()
            self.assertEqual(result.returncode, 3 if key in spec else 2, result.stderr)
            shape = [sizes[name] if size.split()[0] == "any" else int(size.split()[0])
                     for name, size in zip(re.split(", (?!and)", names), extents.split(", "))]
            spec[key] = files[key] = self.path(f"{name}.{key}.npy")
            if key.endswith(("segments", "index")):
                npy.write(files.pop(key), "<i8", shape, [self.random.randrange(2) for _ in range(math.prod(shape))])
            else:  # between 1/4 and 1, PoPE's offsets and logarithms of gates negative: every encoding takes such
                sign = -1 if key in ("offsets", "log_decay") else 1
                npy.write(files[key], "<f8", shape,
                          [sign * self.random.uniform(0.25, 1) for _ in range(math.prod(shape))])

    def arguments(self, text, *more, mask="causal-top-left"):
        at = ("--q-positions", self.path("at.npy"), "--k-positions", self.path("at.npy")) if text.split(":")[0] in IMAGES else ()
        return [*self.files(), "--mask", mask, "--scale", "0.5", "--length", "64", "--encoding", text, *at,
                "--out", self.path("out.npy"), *more]

    def test_every_encoding_can_be_built_from_what_the_errors_ask_for_and_has_its_gradients(self):
        self.k = self.tensor("k.npy", [HEADS, TIME, DIM])
        self.v = self.tensor("v.npy", [HEADS, TIME, DIM])
        weight = self.tensor("d_out.npy", [HEADS, TIME, DIM])
        npy.write(self.path("at.npy"), "<i8", [2, 1, TIME], [0, 0, 0, 1, 1, 1, 0, 1, 2, 0, 1, 2])
        for name, value in (("short_factor", 1.0), ("long_factor", 2.0)):
            npy.write(self.path(f"{name}.npy"), "<f8", [DIM // 2], [value] * (DIM // 2))
        entries = json.loads(run("list", "--json").stdout)["encodings"]
        for entry in entries:
            name = entry["name"]
            with self.subTest(name):
                if entry["sites"] == "input":
                    self.expect_error(2, f"--encoding {name}: acts on the input", "attend", *self.arguments(name))
                    continue
                if name.startswith("rope_") and name in SCALINGS:
                    text = f"{name}:pairing=half{SCALINGS[name].format(self.directory)}"
                    files = {}
                    self.assertEqual(run("attend", *self.arguments(text)).returncode, 0)
                else:
                    text, files = self.built(name)
                    computed = any(not parameter["learned"] for parameter in entry["parameters"])
                    self.assertEqual(bool(files), entry["learned"] or computed)
                if name == "nope":
                    continue
                _, _, out = npy.read(self.path("out.npy"))
                run("attend", *self.arguments("nope"))
                self.assertNotEqual(npy.read(self.path("out.npy"))[2], out)
                outputs = {key: self.path(f"{name}.d_{key}.npy") for key in files}
                backward = text + "".join(f",d_{key}={file}" for key, file in outputs.items())
                result = run("attend", *self.arguments(backward, "--d-out", self.path("d_out.npy"), "--d-q",
                                                      self.path("d_q.npy")))
                self.assertEqual((result.returncode, result.stderr), (0, ""))

                def loss(text=text):
                    run("attend", *self.arguments(text))
                    return sum(w * o for w, o in zip(weight, npy.read(self.path("out.npy"))[2]))

                for key, file in files.items():
                    descr, shape, grad = npy.read(outputs[key])
                    self.assertEqual((descr, shape), ("<f8", npy.read(file)[1]))
                    most = max(range(len(grad)), key=lambda i: abs(grad[i]))
                    if key not in ("out_bias", "hidden_bias"):  # here the same for all keys: softmax does not see it
                        self.assertGreater(abs(grad[most]), 1e-6, key)
                    self.assertAlmostEqual(grad[most], self.slope(file, most, loss), delta=1e-7, msg=key)

    # reports

    def test_the_report_says_what_was_done(self):
        result = run("attend", *self.files(), "--mask", "causal", "--window", "3", "--encoding", "alibi", "--soft-cap",
                     "20", "--out", self.path("out.npy"), env={"COLUMNS": "200"})
        lines = {line[:12].strip(): line[12:] for line in result.stdout.splitlines()}
        self.assertEqual(lines["queries"], "batch 1, 2 heads, 6 tokens of 4")
        self.assertEqual(lines["keys"], "1 head, 6 tokens of 4, values of 4")
        self.assertEqual(lines["type"], "float64")
        self.assertEqual(lines["encodings"], "alibi")
        self.assertEqual(lines["mask"], "causal, window 3 before, all after")
        self.assertEqual(lines["scale"], "0.5, soft cap 20")
        self.assertRegex(lines["time"], r"^forward [0-9.]+ m?s; threads: 1$")
        self.assertRegex(lines["memory"], r"^1 KiB of tensors; the process had at most [0-9.]+ MiB$")
        self.assertEqual(lines["written"], str(self.path("out.npy")))

    def test_attend_json_has_the_documented_members(self):
        result = run("attend", *self.files(), "--mask", "none", "--encoding", "alibi", "--out", self.path("out.npy"),
                     "--json")
        report = json.loads(result.stdout)
        self.assertEqual(list(report), ["schema", "dtype", "batch", "heads", "kv_heads", "q_len", "k_len", "dim",
                                        "value_dim", "encodings", "mask", "window", "scale", "soft_cap", "threads",
                                        "blind_queries", "forward_seconds", "backward_seconds", "tensor_bytes",
                                        "peak_bytes", "files"])
        self.assertEqual((report["schema"], report["window"], report["scale"], report["backward_seconds"]),
                         ("bearing.attend/1", [-1, -1], 0.5, None))

    def test_deberta_with_one_term_takes_one_table(self):
        for term, table, other in (("c2p", "key", "query"), ("p2c", "query", "key")):
            self.tensor("table.npy", [HEADS, 16, DIM])
            text = f"deberta:max_relative_positions=8,terms={term}"
            given = f"{text},{table}={self.path('table.npy')}"
            with self.subTest(term):
                self.assertEqual(run("attend", *self.arguments(given)).stderr, "")
                self.expect_error(2, f"deberta: {table}=FILE is missing: a .npy file of [heads, 2 span, dim] = [2, 16, 4]",
                                  "attend", *self.arguments(text))
                for extra in (f"{other}={self.path('table.npy')}", f"d_{other}=d.npy"):
                    self.expect_error(2, f"deberta: {other}: must be left out, as the spec has no use for it",
                                      "attend", *self.arguments(f"{given},{extra}"))

    # errors

    def test_wrong_attend_command_lines_exit_with_2(self):
        base = ["attend", *self.files()]
        out = ["--out", self.path("x.npy")]
        mask = [*base, "--mask", "none", *out]
        spec = lambda text: [*mask, "--encoding", text]
        npy.write(self.path("table.npy"), "<f8", [32, HEADS], [0.0] * 64)
        npy.write(self.path("real.npy"), "<f8", [TIME], [0.5] * TIME)
        npy.write(self.path("far.npy"), "<i8", [TIME], [2**30 * (t == 1) for t in range(TIME)])
        self.tensor("w_r.npy", [HEADS * DIM, 2])
        self.tensor("bias.npy", [HEADS, DIM])
        self.tensor("segments.npy", [2, HEADS, DIM])
        projected = ",".join(f"{key}={self.path(file)}" for key, file in
                             (("w_r", "w_r.npy"), ("u", "bias.npy"), ("v", "bias.npy")))
        for pieces, arguments in (
            ("--mask is required", [*base, *out]),
            ("--mask: must be none, causal, causal-top-left or causal-bottom-right, got 'left'", [*base, *out, "--mask", "left"]),
            ("--q is required", ["attend", "--mask", "none", *out]),
            ("--out is required, or --d-out with gradients", [*base, "--mask", "none"]),
            ("need --d-out", [*mask, "--d-q", "x.npy"]),
            ("--d-out needs --d-q, --d-k, --d-v, --d-sinks or an encoding's d_KEY=FILE", [*mask, "--d-out", "x.npy"]),
            ("'bas' is not a key; did you mean 'base'? It takes", spec("rope:pairing=half,bas=5")),
            ("'facto' is not a key; did you mean 'factor'?", spec("rope_yarn:pairing=half,facto=5")),
            ("--encoding rope_yarn: trained_length: must be", spec("rope_yarn:pairing=half,factor=4")),
            ("--encoding alibi: form: must not be empty", spec("alibi:form=")),
            ("--window: must be a whole number", [*mask, "--window", "3,x"]),
            ("--scale: must be a finite number, got 'inf'", [*mask, "--scale", "inf"]),
            ("--soft-cap: must be positive", [*mask, "--soft-cap", "-1"]),
            ("--layout: must be bhtd or bthd", [*mask, "--layout", "thd"]),
            ("--q-starts and --k-starts must be given together", [*mask, "--q-starts", "0,6"]),
            ("'alibo' is not an encoding; did you mean 'alibi'?", spec("alibo")),
            ("--encoding sinusoidal: acts on the input", spec("sinusoidal")),
            ("--encoding t5: table=FILE is missing: a .npy file of [buckets, heads] = [any, 2]", spec("t5")),
            ("'tables' is not a key", spec("t5:tables=x.npy")),
            ("--encoding alibi: 'forms' is not a key; did you mean 'form'?", spec("alibi:forms=causal")),
            ("form: must be symmetric or causal, got 'x'", spec("alibi:form=x")),
            ("must be followed by KEY=VALUE,KEY=VALUE,..., got 'half'", spec("rope:half")),
            ("form is there twice", spec("alibi:form=causal,form=causal")),
            ("nope: has no spec that JSON could say", spec("nope:{}")),
            ("pairing must be given, there is no default: interleaved or half", spec("rope:base=100")),
            ("--encoding rope_yarn: ", spec("rope_yarn:pairing=half,fact=4")),
            ("[buckets, heads] = [0, 2]", spec("t5:buckets=0")),
            ("--scale must be given with t5, which was published with 1; 1/sqrt(dim) is 0.5",
             spec(f"t5:table={self.path('table.npy')}")),
            ("--encoding swin_v2: height must be given, there is no default", spec("swin_v2:width=3")),
            ("--encoding swin_v2: w1=FILE is missing: a .npy file of [hidden, axes] = [any, 2]",
             spec("swin_v2:height=2,width=3")),
            ("--encoding swin_v2: 'table' is not a key; it takes w1, d_w1, b1", spec("swin_v2:table=x.npy")),
            ("--encoding xlnet: w_r=FILE is missing: a .npy file of [heads dim, d_model] = [8, any]", spec("xlnet")),
            ("--encoding xlnet: r_s=FILE is missing", spec(f"xlnet:{projected},seg_embed={self.path('segments.npy')}")),
            ("--encoding transformer_xl: r is computed from w_r: give one of them",
             spec(f"transformer_xl:r=r.npy,{projected}")),
            ("--encoding transformer_xl: first_offset: follows from the positions where w_r is given: leave it out, or give r",
             spec(f"transformer_xl:{projected},first_offset=3")),
            ("--encoding transformer_xl: 'seg_embed' is not a key", spec("transformer_xl:seg_embed=x.npy")),
            ("--encoding xlnet: needs whole positions",
             [*spec(f"xlnet:{projected}"), "--q-positions", self.path("real.npy")]),
            ("--encoding xlnet: needs a table of more than 2^31 numbers",
             [*spec(f"xlnet:{projected}"), "--q-positions", self.path("far.npy")]),
            ("d_table needs --d-out", spec(f"t5:table={self.path('table.npy')},d_table=d.npy")),
            ("at most 8 encodings", [*mask, *["--encoding", "alibi"] * 9]),
            ("--out and --lse must be different files", [*mask, "--lse", self.path("x.npy")]),
        ):
            with self.subTest(str(pieces)):
                self.expect_error(2, pieces, *arguments)
        self.tensor("q.npy", [HEADS, 2, DIM])
        self.expect_error(2, ["--q-positions must be given for 2 queries and 6 keys", "here 4 if"], *base, *out, "--mask",
                          "causal")
        self.assertFalse(self.path("x.npy").exists())

    def test_wrong_attend_files_exit_with_3(self):
        mask = ["attend", *self.files(), "--mask", "none", "--out", self.path("x.npy")]
        self.tensor("t5.npy", [32, HEADS + 1])
        self.tensor("wide.npy", [KV_HEADS, TIME, DIM + 1])
        self.tensor("four.npy", [KV_HEADS, TIME, DIM], "<f4")
        npy.write(self.path("whole.npy"), "<i8", [6], range(6))
        for pieces, arguments in (
            ("t5.npy: t5's table must be [buckets, heads] = [any, 2], got [32, 3]",
             [*mask, "--scale", "1", "--encoding", f"t5:table={self.path('t5.npy')}"]),
            ("none.npy: cannot be", [*mask, "--encoding", f"t5:table={self.path('none.npy')}"]),
            ("wide.npy: must have the batch and dim of", [*mask, "--k", self.path("wide.npy")]),
            ("four.npy: must have the dtype of", [*mask, "--v", self.path("four.npy")]),
            ("whole.npy: the dtype must be float16", [*mask, "--sinks", self.path("whole.npy")]),
            ("whole.npy: must be [batch, k_len] of dtype b1", [*mask, "--key-mask", self.path("whole.npy")]),
            ("wide.npy: must be like the output", [*mask, "--d-out", self.path("wide.npy"), "--d-q", self.path("y.npy")]),
            ("--k-lengths: must be from 0 to k_len = 6, got 7", [*mask, "--k-lengths", "7"]),
            ("--q-positions: ", [*mask, "--q-positions", self.path("short.npy")]),
            ("cannot be written", ["attend", *self.files(), "--mask", "none", "--out", self.path("no/x.npy")]),
        ):
            npy.write(self.path("short.npy"), "<i8", [5], range(5))
            # An option that is there twice: the last one would be taken by none of CLI11's rules, so replace it.
            for option in ("--k", "--v"):
                if arguments.count(option) == 2:
                    first = arguments.index(option)
                    arguments = arguments[:first] + arguments[first + 2 :]
            with self.subTest(str(pieces)):
                self.expect_error(3, pieces, *arguments)
        self.assertFalse(self.path("x.npy").exists())


def attention_scores(q, k, sizes):
    heads, kv_heads, q_len, k_len, dim = sizes
    return {(h, i, j): dim**-0.5 * sum(q[(h * q_len + i) * dim + d] * k[(h * kv_heads // heads * k_len + j) * dim + d]
                                       for d in range(dim))
            for h in range(heads) for i in range(q_len) for j in range(k_len)}


OPTIONAL = {"shaw": ["value", "key"], "pope": ["offsets"],
            "xlnet": ["seg_embed"], "bucket_bias": ["index"], "alibi_learned": ["slopes"]}
IMAGES = ("swin", "beit", "swin_v2", "sam", "rope_axial", "vjepa2")
SCALINGS = {"rope_linear": ",factor=2", "rope_ntk": ",factor=2", "rope_dynamic_ntk": ",factor=2,trained_length=16",
            "rope_alpha": ",alpha=3", "rope_ntk_by_parts": ",factor=2,trained_length=16",
            "rope_yarn": ",factor=2,trained_length=16", "rope_deepseek_yarn": ",factor=2,trained_length=16",
            "rope_longrope": ",trained_length=16,short_factor={0}/short_factor.npy,long_factor={0}/long_factor.npy",
            "rope_llama3": ",factor=2,trained_length=16", "rope_proportional": ",fraction=0.5"}

if __name__ == "__main__":
    unittest.main()
