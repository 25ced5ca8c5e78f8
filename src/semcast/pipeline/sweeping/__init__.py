"""Sweeps: a scenario, a grid of settings and seeds in; a table of simulated cells out.

    grid      "r=0,0.25 delay_ms=5..50..5" as axes of settings
    cells     every point of the grid times every seed, each with its name
    simulate  one cell in this process: what a Spark task, a process pool or a loop calls
    stages    the same as stages of Spark: simulated, settled, summarized
    run       all missing cells, in chunks, so that little is lost when it is interrupted
    outcome   the whole of it: what is asked for, and what came of it
    plot      the summary as a picture

Nothing is imported here: executors take only `simulate` and `stages`.
"""
