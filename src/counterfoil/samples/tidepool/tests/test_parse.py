import unittest

from tidepool.parse import Reading, parse_reading, parse_table


class ParseTest(unittest.TestCase):
    def test_a_height_above_datum(self):
        self.assertEqual(parse_reading("2026-03-01 06:20 1.42 m"), Reading("2026-03-01", 380, 1.42))

    def test_a_height_below_datum_keeps_its_sign(self):
        self.assertEqual(parse_reading("2026-03-01 06:20 -0.10 m").height, -0.10)

    def test_columns_may_be_aligned_with_blanks(self):
        self.assertEqual(parse_reading("2026-03-01  06:20   1.42  m").minute, 380)

    def test_anything_else_is_refused_by_name(self):
        with self.assertRaisesRegex(ValueError, "high tide"):
            parse_reading("high tide")

    def test_a_table_is_in_order_and_its_comments_are_left_out(self):
        table = "# Port Example\n\n2026-03-01 06:20 0.40 m\n2026-03-01 00:10 3.90 m\n"
        self.assertEqual([reading.minute for reading in parse_table(table)], [10, 380])


if __name__ == "__main__":
    unittest.main()
