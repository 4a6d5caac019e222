"""Eighty rows of the diff: replicas, partition, maxUnavailable, maxSurge, flags, pods, numbers.

Notation of pods: tests/pods.py. Flags: cur=upd, RB off, paused, exclPD, PUasU, scaleMU=n.
Keys not named in the result are 0. The rollback gate is on unless `RB off`.
"""

from __future__ import annotations

from typing import Final

TABLE: Final = """
DIFF-1 | 0 | 0 | 1 | 0 |  |  |
DIFF-2 | 5 | 0 | 1 | 0 |  |  | up=5 upLimit=5
DIFF-3 | 5 | 0 | 1 | 0 |  | 5N+ |
DIFF-4 | 5 | 0 | 1 | 0 |  | 1N+x 4N+ | delReady=1
DIFF-5 | 5 | 0 | 1 | 0 |  | 4N+ | up=1 upLimit=1
DIFF-6 | 5 | 0 | 1 | 0 |  | 5N+ |
DIFF-7 | 5 | 0 | 1 | 0 |  | 2N+x 3N+ | delReady=1
DIFF-8 | 5 | 0 | 1 | 0 |  | 1N+x 3N+ | up=1 upLimit=1
DIFF-9 | 5 | 0 | 1 | 0 |  | 1N+x 3N+ 1N- |
DIFF-10 | 5 | 0 | 1 | 0 |  | 1N+x 4N+ | delReady=1
DIFF-11 | 5 | 0 | 1 | 0 |  | 4N+ | up=1 upLimit=1
DIFF-12 | 5 | 0 | 1 | 0 |  | 5N+ |
DIFF-13 | 4 | 0 | 1 | 0 |  | 2N-x 3N+ | delReady=2
DIFF-14 | 4 | 0 | 1 | 0 |  | 3N+ | up=1 upLimit=1
DIFF-15 | 4 | 0 | 1 | 0 |  | 4N+ |
DIFF-16 | 5 | 3 | 1 | 0 |  | 5O+ | upd=2 updMaxUn=1
DIFF-17 | 5 | 3 | 1 | 0 |  | 1N+ 4O+ | upd=1 updMaxUn=1
DIFF-18 | 5 | 3 | 1 | 0 |  | 2N+ 3O+ |
DIFF-19 | 5 | 4 | 2 | 0 |  | 4N+ 1O+ | upd=-3 updMaxUn=2
DIFF-20 | 5 | 4 | 2 | 0 |  | 2N+ 3O+ | upd=-1 updMaxUn=2
DIFF-21 | 5 | 4 | 2 | 0 |  | 1N+ 4O+ |
DIFF-22 | 5 | 0 | 0 | 1 |  | 1N+x 4N+ | up=1 upLimit=1 surge=1
DIFF-23 | 5 | 0 | 0 | 1 |  | 1N+x 4N+ 1N- | surge=1
DIFF-24 | 5 | 0 | 0 | 1 |  | 1N+x 5N+ | delReady=1 surge=1
DIFF-25 | 5 | 0 | 0 | 1 |  | 5N+ |
DIFF-26 | 5 | 3 | 1 | 1 |  | 5O+ | up=1 upLimit=1 surge=1 upd=2 updMaxUn=1
DIFF-27 | 5 | 3 | 1 | 1 |  | 5O+ 1N- | surge=1 upd=1 updMaxUn=2
DIFF-28 | 5 | 3 | 1 | 1 |  | 4O+ 1N[U]- 1N- | down=1 downOld=1
DIFF-29 | 5 | 3 | 1 | 1 |  | 4O+ 1N+ 1N- | down=1 downOld=1 delReady=1
DIFF-30 | 5 | 3 | 1 | 1 |  | 5O+ | up=1 upLimit=1 surge=1 upd=2 updMaxUn=1
DIFF-31 | 5 | 3 | 1 | 1 |  | 5O+ 1N- | surge=1 upd=1 updMaxUn=2
DIFF-32 | 5 | 3 | 1 | 1 |  | 4O+ 1O+x 1N- | delReady=1 surge=1 surgeOld=1 upd=1 updMaxUn=2
DIFF-33 | 5 | 3 | 1 | 1 |  | 4O+ 1N- | up=1 upLimit=1 surge=1 upd=1 updMaxUn=1
DIFF-34 | 5 | 3 | 1 | 1 |  | 4O+ 2N- | down=1 downOld=1
DIFF-35 | 5 | 3 | 1 | 1 |  | 4O+ 1N+ 1N- | down=1 downOld=1 delReady=1
DIFF-36 | 5 | 3 | 1 | 1 |  | 3O+ 2N+ |
DIFF-37 | 5 | 99% | 3 | 2 |  | 5O+ | up=1 upLimit=1 surge=1 upd=1 updMaxUn=3
DIFF-38 | 5 | 99% | 3 | 2 |  | 5O+ 1N- | down=1 downOld=1 delReady=3
DIFF-39 | 5 | 99% | 3 | 2 |  | 4O+ 1N- |
DIFF-40 | 5 | 99% | 40% | 30% |  | 5O+ | up=1 upLimit=1 surge=1 upd=1 updMaxUn=2
DIFF-41 | 5 | 99% | 40% | 30% |  | 5O+ 1N- | down=1 downOld=1 delReady=2
DIFF-42 | 5 | 99% | 40% | 30% |  | 4O+ 1N- |
DIFF-43 | 5 | 99% | 30% | 30% |  | 5O+ | up=1 upLimit=1 surge=1 upd=1 updMaxUn=1
DIFF-44 | 5 | 99% | 30% | 30% |  | 5O+ 1N- | down=1 downOld=1 delReady=1
DIFF-45 | 5 | 99% | 30% | 30% |  | 4O+ 1N- |
DIFF-46 | 5 | 0 | 1 | 0 | cur=upd | 5N+ |
DIFF-47 | 5 | 3 | 1 | 0 | cur=upd | 5N+ |
DIFF-48 | 5 | 3 | 1 | 0 | cur=upd | 2O+ 3N+ |
DIFF-49 | 5 | 1 | 1 | 0 | cur=upd | 3O+ 2N+ | upd=2 updMaxUn=1
DIFF-50 | 5 | 1 | 2 | 0 | cur=upd | 2O+ 2N+ | up=1 upLimit=1 upd=1 updMaxUn=1
DIFF-51 | 5 | 1 | 1 | 0 | cur=upd | 3O+ 3N+ | down=1 downOld=2 delReady=2 upd=1 updMaxUn=2
DIFF-52 | 5 | 4 | 1 | 0 | RB off | 1O+ 4N+ |
DIFF-53 | 5 | 0 | 1 | 0 | scaleMU=2 |  | up=5 upLimit=2
DIFF-54 | 6 | 0 | 1 | 0 | scaleMU=2 | 2N+ 1N- | up=3 upLimit=1
DIFF-55 | 6 | 0 | 1 | 0 | scaleMU=2 | 1N+ 2N- | up=3
DIFF-56 | 3 | 0 | 1 | 0 |  | 2N+ 1N+x | delReady=1
DIFF-57 | 3 | 0 | 1 | 0 |  | 2N+ 1N[PD]+x |
DIFF-58 | 3 | 0 | 1 | 0 |  | 2N+ | up=1 upLimit=1
DIFF-59 | 3 | 0 | 1 | 0 |  | 2N+ 1N- |
DIFF-60 | 3 | 0 | 1 | 0 | exclPD | 2N+ 1N+x | delReady=1
DIFF-61 | 3 | 0 | 1 | 0 | exclPD | 2N+ 1N[PD]+x | up=1 upLimit=1
DIFF-62 | 3 | 0 | 1 | 0 | exclPD | 2N+ 1N[PD]+x 1N- |
DIFF-63 | 3 | 0 | 1 | 0 | exclPD | 2N+ 1N[PD]+x 1N- |
DIFF-64 | 3 | 0 | 1 | 0 | exclPD | 2N+ 1N+x | delReady=1
DIFF-65 | 3 | 0 | 1 | 0 | exclPD | 2N+ 1N[PD]+x | up=1 upLimit=1
DIFF-66 | 3 | 0 | 1 | 0 | exclPD | 2N+ 1N[PD]+x 1N- |
DIFF-67 | 3 | 0 | 1 | 0 | exclPD | 3N+ 1N- | down=1 delReady=1
DIFF-68 | 3 | 0 | 1 | 0 | exclPD | 3N+ |
DIFF-69 | 3 | 0 | 1 | 0 | exclPD | 3N+ |
DIFF-70 | 2 | 0 | 1 | 0 | exclPD | 2N+ 1N+x | delReady=2
DIFF-71 | 2 | 0 | 1 | 0 | exclPD | 2N+ 1N[PD]+x |
DIFF-72 | 3 | 0 | 1 | 0 | exclPD | 2N+ 1N[PD]+x | up=1 upLimit=1
DIFF-73 | 3 | 0 | 1 | 0 | exclPD | 2N+ 1N[PD]+x 1N- |
DIFF-74 | 3 | 0 | 1 | 0 | exclPD | 2N+ 1N- |
DIFF-75 | 4 | 90% | 1 | 0 | exclPD, PUasU | 1O[PU]+ 2O+ | up=1 upOld=1 upLimit=1
DIFF-76 | 4 | 2 | 1 | 0 | exclPD, PUasU | 1O[PU]+ 2O+ | up=1 upLimit=1
DIFF-77 | 5 | 0 | 0 | 3 | paused | 3O+ | up=2 upLimit=2 upd=3 updMaxUn=-2
DIFF-78 | 3 | 0 | 0 | 3 | paused | 5O+ | down=2 downOld=5 delReady=2 upd=3 updMaxUn=2
DIFF-79 | 5 | 0 | 0 | 3 | paused | 5O+ 3N- | down=3 downOld=5 upd=2 updMaxUn=3
DIFF-80 | 5 | 2 | 0 | 3 | paused | 5O+ 3N- | down=3 downOld=3
"""
