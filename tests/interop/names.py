#!/usr/bin/env python3
"""Names that are hard for traces: every reader shows them as the program wrote them, or the tracepoint is refused."""
import re

from support import InteropTest, main, program

LONGEST = "a" + "bcdefghij" * 28 + "kl"
SHOWN = rf"""
names:keywords: {{ align = 1, event = 2, string = 3, integer = 4, floating_point = 5, variant = 6, Bool = 7, Complex = 8, Imaginary = 9, name = 10, id = 11, cpu_id = 12, timestamp = 13 }}
names:underscores: {{ _x = 1, x = 2, y = 3, _y = 4, __y = 5, _ = 6, __ = 7, _enum = 8, _Bool_ = 9 }}
names:lengths: {{ __z_length = 9, _z_length_2 = 2, z = [ [0] = 1, [1] = 2 ], __x_length_2 = 2, _x = [ [0] = 1, [1] = 2 ], _x_length_3 = 3, x = [ [0] = 1, [1] = 2, [2] = 3 ], x_length = 7, _x_length = 8, _y_length_2 = 1, y = [ [0] = 1 ], __y_length = 4, _y = [ [0] = 1, [1] = 2, [2] = 3, [3] = 4 ], y_length = 6 }}
names:longest: {{ _{LONGEST}_length = 2, {LONGEST} = [ [0] = 1, [1] = 2 ] }}
names:keyword_first: {{ stream = 1, _stream = 2 }}
größe:a$b: {{ }}
names:labels: {{ label = ( "least" : container = -9223372036854775808 ) }}
names:labels: {{ label = ( "\"quoted\" back\\slash %s%n" : container = 0 ) }}
names:labels: {{ label = ( "" : container = 1 ) }}
names:labels: {{ label = ( "größe" : container = 2 ) }}
names:labels: {{ label = ( "*/ }};" : container = 3 ) }}
"quoted" back\slash %s%n: größe */ }};: {{ n = 1 }}
"""
# The tracepoint, and the reason that is given.
REFUSED = {
    "names:too_long": f'"{LONGEST[:80]}..." is no field name',
    "names:no_room": 'CTF cannot name the field "_x" after a field "__x"',
    "names:keyword_second": 'CTF cannot name the field "stream" after a field "_stream"',
    "names:dollar": '"a$b" is no field name',
    "names:utf8": '"größe" is no field name',
    "names:tabbed": 'field "label": a label has control characters',
    "names:line?break": "its name has 16 bytes or is not printable",
}
LINE = re.compile(r"^\[[^]]*\] \([^)]*\) \S+ (.*): \{ cpu_id = \d+ \}, (.*)$")


class OddNames(InteropTest):
    maxDiff = None

    def test_shown_as_written_or_refused(self):
        recording = self.record(program("names"), options=("--context", "none"))
        self.assertEqual(recording.status, 0, recording.stderr)
        found = [": ".join(LINE.match(line).groups()) for line in self.read_complete(recording).lines]
        self.assertEqual(found, SHOWN.strip().splitlines())
        warnings = recording.summary["warnings"]
        for name, reason in REFUSED.items():
            about = [warning for warning in warnings if f'tracepoint "{name}" of ' in warning]
            self.assertEqual(len(about), 1, warnings)
            self.assertRegex(about[0], r"^test-program-na\w* \(\d+\): ")
            self.assertIn("names.cpp:", about[0])
            self.assertIn(f"is not recorded: {reason}", about[0])
        self.assertEqual(len(warnings), len(REFUSED), warnings)


if __name__ == "__main__":
    main()
