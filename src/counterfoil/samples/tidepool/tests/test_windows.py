import unittest

from tidepool.parse import Reading
from tidepool.windows import windows_below


def day(*points):
    return [Reading("2026-03-01", minute, height) for minute, height in points]


class WindowsTest(unittest.TestCase):
    def test_water_that_stays_high_gives_no_stretch(self):
        self.assertEqual(windows_below(day((0, 3.0), (360, 2.0), (720, 3.0)), 1.0), [])

    def test_a_stretch_begins_and_ends_where_the_level_is_crossed(self):
        self.assertEqual(windows_below(day((0, 2.0), (360, 0.0), (720, 2.0)), 1.0), [(180, 540)])

    def test_a_reading_at_the_level_itself_does_not_split_a_stretch(self):
        falling = day((0, 2.0), (100, 1.0), (200, 0.0), (300, 2.0))
        self.assertEqual(windows_below(falling, 1.0), [(100, 250)])

    def test_two_low_tides_are_two_stretches(self):
        tides = day((0, 2.0), (360, 0.0), (720, 2.0), (1080, 0.0), (1440, 2.0))
        self.assertEqual(windows_below(tides, 1.0), [(180, 540), (900, 1260)])


if __name__ == "__main__":
    unittest.main()
