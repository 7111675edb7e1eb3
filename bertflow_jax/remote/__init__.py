"""Workdirs on Google Cloud Storage, `gs://BUCKET/FOLDER`.

A run never works in a bucket. It works in a temporary folder of its machine (TMPDIR says where),
which is an ordinary workdir, and this package copies: every complete checkpoint up as a unit, what
a resumed run or an evaluation needs down. The other way would be to let orbax and every writer of
files go through epath and tensorstore to the bucket itself. Then each rule of the local store (a
step appears whole or not at all, digests of what was written, a delete that can be killed) needs a
second design, for storage that cannot rename or append; copying needs put, get, list and delete
and keeps the rules where they are tested.

    address   what a `gs://` name is
    bucket    objects: the only file that imports google.cloud.storage (the extra `gcs`)
    steps     checkpoints: which are whole, up, down and away
    workdir   the temporary folder of a run, and everything beside checkpoints
    output    results of an evaluation
"""
