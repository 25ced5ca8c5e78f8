"""What a journal says of a run: rates, purging, latencies, buffers. One file, one question.

Journals go in (`pipeline.journals`), one small table for each question comes out; `questions`
composes the stages. Everything is per run, member and view (null: there was but one view), from the
journal alone. Knows nothing of what is right or wrong: that is `pipeline.verification`.
"""
