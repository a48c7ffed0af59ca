import unittest

from tidepool.intervals import length, merge


class IntervalsTest(unittest.TestCase):
    def test_stretches_apart_stay_apart(self):
        self.assertEqual(merge([(0, 10), (20, 30)]), [(0, 10), (20, 30)])

    def test_touching_stretches_are_one(self):
        self.assertEqual(merge([(0, 10), (10, 30)]), [(0, 30)])

    def test_an_inner_stretch_does_not_cut_the_outer_one(self):
        self.assertEqual(merge([(0, 60), (10, 30)]), [(0, 60)])

    def test_the_order_given_does_not_matter(self):
        self.assertEqual(merge([(20, 30), (0, 25)]), [(0, 30)])

    def test_overlaps_are_counted_once(self):
        self.assertEqual(length([(20, 30), (0, 25)]), 30)


if __name__ == "__main__":
    unittest.main()
