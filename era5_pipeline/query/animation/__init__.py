"""Animated maps: the hours of a day or month as frames of a GIF or MP4.

Here: reading the hours in bounded memory (`hour_frames`), one scale of colours for all of them, the pixels of a frame
(`frame_painter`, `frame_palette`), and the files (`gif_file`, `mp4_file`). Not here: what a map looks like
(`query.plots`).
"""
