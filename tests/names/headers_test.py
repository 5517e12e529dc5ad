"""A source includes the standard headers of the names that it uses, and those of {fmt}, itself or through a header of ours that it includes.

Builds that compile several sources as one do not see what a source forgot, as another one has included it.

Usage: headers_test.py ROOT
"""

import functools
import pathlib
import re
import sys

root = pathlib.Path(sys.argv[1]).resolve()
FOLDERS = ("include", "src", "io", "tools", "python/src", "bench")
NAMES = {
    "algorithm": "all_of any_of clamp copy copy_n count count_if equal fill fill_n find find_if is_sorted lower_bound max max_element min "
    "min_element none_of remove_if replace reverse rotate set_difference sort stable_sort transform unique upper_bound",
    "any": "any any_cast",
    "array": "array",
    "atomic": "atomic atomic_flag",
    "bit": "bit_cast bit_ceil bit_width countr_zero popcount",
    "charconv": "from_chars to_chars",
    "chrono": "chrono::",
    "cmath": "acos atan atan2 cbrt ceil copysign cos cosh erf exp exp2 expm1 fabs floor fma fmod frexp hypot isfinite isinf isnan ldexp log "
    "log1p log2 lrint nearbyint nextafter pow rint round signbit sin sinh sqrt tan tanh trunc",
    "complex": "complex",
    "cstdlib": "abs",
    "cstring": "memchr memcmp memcpy memmove memset strcmp strlen",
    "deque": "deque",
    "filesystem": "filesystem::",
    "fstream": "fstream ifstream ofstream",
    "functional": "function",
    "initializer_list": "initializer_list",
    "limits": "numeric_limits",
    "map": "map",
    "memory": "make_shared make_unique shared_ptr unique_ptr weak_ptr",
    "mutex": "lock_guard mutex scoped_lock unique_lock",
    "numeric": "accumulate iota partial_sum",
    "optional": "nullopt optional",
    "set": "set",
    "span": "span",
    "sstream": "istringstream ostringstream stringstream",
    "stdexcept": "domain_error invalid_argument length_error logic_error out_of_range runtime_error",
    "string": "string to_string",
    "string_view": "string_view",
    "thread": "thread",
    "tuple": "tie tuple",
    "type_traits": "conditional_t decay_t is_base_of_v is_const_v is_floating_point_v is_integral_v is_same_v remove_const_t type_identity_t",
    "typeindex": "type_index",
    "unordered_map": "unordered_map",
    "utility": "exchange index_sequence pair",
    "variant": "get_if holds_alternative monostate variant visit",
    "vector": "vector",
}
# A header that the standard says, or has always had, to bring another one's name.
ALSO = {"cstdlib": {"cmath"}, "utility": {"map"}, "string_view": {"string"}, "initializer_list": {"vector", "string", "map", "set", "array"}, "tuple": {"map", "functional"}}


@functools.cache
def includes(file: pathlib.Path) -> frozenset[str]:
    """The standard headers and those of {fmt} that a file includes, and what its includes of ours include."""
    found: set[str] = set()
    for kind, name in re.findall(r'^\s*#include ([<"])([^>"]+)[>"]', file.read_text(), re.M):
        places = [root / "include" / name] if kind == "<" else [file.parent / name, *(root / top / name for top in (*FOLDERS, "tools/bearing", "tests"))]
        ours = next((place.resolve() for place in places if place.exists()), None)
        if ours is not None and ours != file:
            found |= includes(ours)
        elif "/" not in name or name.startswith("fmt/"):
            found.add(name)
    return frozenset(found)


def main() -> int:
    wrong = seen = 0
    for file in sorted(file for top in FOLDERS for file in (root / top).rglob("*")):
        if file.suffix not in {".cc", ".hpp"} or file.name.endswith("_test.cc"):
            continue
        text = re.sub(r'//.*|"(\\.|[^"\\\n])*"', "", file.read_text())
        used = set(re.findall(r"\bstd::(\w+(?:::(?=\w))?)", text))
        have = includes(file.resolve())
        for header, names in NAMES.items():
            of_it = sorted(used & set(names.split()))
            seen += len(of_it)
            if of_it and not have & {header, *ALSO.get(header, ())}:
                wrong += 1
                print(f"{file.relative_to(root)} must include <{header}>, as it uses std::{', std::'.join(of_it)}")
        # Up to {fmt} 10 <fmt/format.h> has it too.
        if "fmt::join" in text and "fmt/ranges.h" not in have:
            wrong += 1
            print(f"{file.relative_to(root)} must include <fmt/ranges.h>, as it uses fmt::join")
    if seen < 1500:
        print(f"only {seen} names were found: the test looks in the wrong place")
    return int(wrong > 0 or seen < 1500)


if __name__ == "__main__":
    sys.exit(main())
