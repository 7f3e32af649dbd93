"""The evaluation of networks: figures in every pose, their uncertainty, and pictures of mistakes."""
