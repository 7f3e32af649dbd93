"""The choices that a run makes by itself: size, time, speed, group and head, by measuring and looking at the images."""
