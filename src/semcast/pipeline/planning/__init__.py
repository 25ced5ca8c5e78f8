"""Plans: a trace and the rate of a slow receiver in; the buffer and the bitmap that carry it out.

    forecast   the closed form: what N and k must at least be, or that none will do (SRM §6.5)
    resampled  the trace, and samples drawn from it in blocks, as files to replay
    confirm    a sweep over these samples, with larger buffers where the closed form was hopeful
    paste      the `GroupConfig` that it comes to

Nothing is imported here.
"""
