"""What a run chooses by itself: size, time, speed, group and head, by measuring and by looking at the images."""
