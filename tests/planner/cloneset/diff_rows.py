"""Eighty rows of the diff: replicas, partition, maxUnavailable, maxSurge, flags, pods, numbers.

Notation of pods: tests/pods.py. Flags: cur=upd, RB off, paused, exclPD, PUasU, scaleMU=n.
Keys not named in the result are 0. The rollback gate is on unless `RB off`.
"""

from __future__ import annotations

from typing import Final

TABLE: Final = """
D1 | 0 | 0 | 1 | 0 |  |  |
D2 | 5 | 0 | 1 | 0 |  |  | up=5 upLimit=5
D3 | 5 | 0 | 1 | 0 |  | 5N+ |
D4 | 5 | 0 | 1 | 0 |  | 1N+x 4N+ | delReady=1
D5 | 5 | 0 | 1 | 0 |  | 4N+ | up=1 upLimit=1
D6 | 5 | 0 | 1 | 0 |  | 5N+ |
D7 | 5 | 0 | 1 | 0 |  | 2N+x 3N+ | delReady=1
D8 | 5 | 0 | 1 | 0 |  | 1N+x 3N+ | up=1 upLimit=1
D9 | 5 | 0 | 1 | 0 |  | 1N+x 3N+ 1N- |
D10 | 5 | 0 | 1 | 0 |  | 1N+x 4N+ | delReady=1
D11 | 5 | 0 | 1 | 0 |  | 4N+ | up=1 upLimit=1
D12 | 5 | 0 | 1 | 0 |  | 5N+ |
D13 | 4 | 0 | 1 | 0 |  | 2N-x 3N+ | delReady=2
D14 | 4 | 0 | 1 | 0 |  | 3N+ | up=1 upLimit=1
D15 | 4 | 0 | 1 | 0 |  | 4N+ |
D16 | 5 | 3 | 1 | 0 |  | 5O+ | upd=2 updMaxUn=1
D17 | 5 | 3 | 1 | 0 |  | 1N+ 4O+ | upd=1 updMaxUn=1
D18 | 5 | 3 | 1 | 0 |  | 2N+ 3O+ |
D19 | 5 | 4 | 2 | 0 |  | 4N+ 1O+ | upd=-3 updMaxUn=2
D20 | 5 | 4 | 2 | 0 |  | 2N+ 3O+ | upd=-1 updMaxUn=2
D21 | 5 | 4 | 2 | 0 |  | 1N+ 4O+ |
D22 | 5 | 0 | 0 | 1 |  | 1N+x 4N+ | up=1 upLimit=1 surge=1
D23 | 5 | 0 | 0 | 1 |  | 1N+x 4N+ 1N- | surge=1
D24 | 5 | 0 | 0 | 1 |  | 1N+x 5N+ | delReady=1 surge=1
D25 | 5 | 0 | 0 | 1 |  | 5N+ |
D26 | 5 | 3 | 1 | 1 |  | 5O+ | up=1 upLimit=1 surge=1 upd=2 updMaxUn=1
D27 | 5 | 3 | 1 | 1 |  | 5O+ 1N- | surge=1 upd=1 updMaxUn=2
D28 | 5 | 3 | 1 | 1 |  | 4O+ 1N[U]- 1N- | down=1 downOld=1
D29 | 5 | 3 | 1 | 1 |  | 4O+ 1N+ 1N- | down=1 downOld=1 delReady=1
D30 | 5 | 3 | 1 | 1 |  | 5O+ | up=1 upLimit=1 surge=1 upd=2 updMaxUn=1
D31 | 5 | 3 | 1 | 1 |  | 5O+ 1N- | surge=1 upd=1 updMaxUn=2
D32 | 5 | 3 | 1 | 1 |  | 4O+ 1O+x 1N- | delReady=1 surge=1 surgeOld=1 upd=1 updMaxUn=2
D33 | 5 | 3 | 1 | 1 |  | 4O+ 1N- | up=1 upLimit=1 surge=1 upd=1 updMaxUn=1
D34 | 5 | 3 | 1 | 1 |  | 4O+ 2N- | down=1 downOld=1
D35 | 5 | 3 | 1 | 1 |  | 4O+ 1N+ 1N- | down=1 downOld=1 delReady=1
D36 | 5 | 3 | 1 | 1 |  | 3O+ 2N+ |
D37 | 5 | 99% | 3 | 2 |  | 5O+ | up=1 upLimit=1 surge=1 upd=1 updMaxUn=3
D38 | 5 | 99% | 3 | 2 |  | 5O+ 1N- | down=1 downOld=1 delReady=3
D39 | 5 | 99% | 3 | 2 |  | 4O+ 1N- |
D40 | 5 | 99% | 40% | 30% |  | 5O+ | up=1 upLimit=1 surge=1 upd=1 updMaxUn=2
D41 | 5 | 99% | 40% | 30% |  | 5O+ 1N- | down=1 downOld=1 delReady=2
D42 | 5 | 99% | 40% | 30% |  | 4O+ 1N- |
D43 | 5 | 99% | 30% | 30% |  | 5O+ | up=1 upLimit=1 surge=1 upd=1 updMaxUn=1
D44 | 5 | 99% | 30% | 30% |  | 5O+ 1N- | down=1 downOld=1 delReady=1
D45 | 5 | 99% | 30% | 30% |  | 4O+ 1N- |
D46 | 5 | 0 | 1 | 0 | cur=upd | 5N+ |
D47 | 5 | 3 | 1 | 0 | cur=upd | 5N+ |
D48 | 5 | 3 | 1 | 0 | cur=upd | 2O+ 3N+ |
D49 | 5 | 1 | 1 | 0 | cur=upd | 3O+ 2N+ | upd=2 updMaxUn=1
D50 | 5 | 1 | 2 | 0 | cur=upd | 2O+ 2N+ | up=1 upLimit=1 upd=1 updMaxUn=1
D51 | 5 | 1 | 1 | 0 | cur=upd | 3O+ 3N+ | down=1 downOld=2 delReady=2 upd=1 updMaxUn=2
D52 | 5 | 4 | 1 | 0 | RB off | 1O+ 4N+ |
D53 | 5 | 0 | 1 | 0 | scaleMU=2 |  | up=5 upLimit=2
D54 | 6 | 0 | 1 | 0 | scaleMU=2 | 2N+ 1N- | up=3 upLimit=1
D55 | 6 | 0 | 1 | 0 | scaleMU=2 | 1N+ 2N- | up=3
D56 | 3 | 0 | 1 | 0 |  | 2N+ 1N+x | delReady=1
D57 | 3 | 0 | 1 | 0 |  | 2N+ 1N[PD]+x |
D58 | 3 | 0 | 1 | 0 |  | 2N+ | up=1 upLimit=1
D59 | 3 | 0 | 1 | 0 |  | 2N+ 1N- |
D60 | 3 | 0 | 1 | 0 | exclPD | 2N+ 1N+x | delReady=1
D61 | 3 | 0 | 1 | 0 | exclPD | 2N+ 1N[PD]+x | up=1 upLimit=1
D62 | 3 | 0 | 1 | 0 | exclPD | 2N+ 1N[PD]+x 1N- |
D63 | 3 | 0 | 1 | 0 | exclPD | 2N+ 1N[PD]+x 1N- |
D64 | 3 | 0 | 1 | 0 | exclPD | 2N+ 1N+x | delReady=1
D65 | 3 | 0 | 1 | 0 | exclPD | 2N+ 1N[PD]+x | up=1 upLimit=1
D66 | 3 | 0 | 1 | 0 | exclPD | 2N+ 1N[PD]+x 1N- |
D67 | 3 | 0 | 1 | 0 | exclPD | 3N+ 1N- | down=1 delReady=1
D68 | 3 | 0 | 1 | 0 | exclPD | 3N+ |
D69 | 3 | 0 | 1 | 0 | exclPD | 3N+ |
D70 | 2 | 0 | 1 | 0 | exclPD | 2N+ 1N+x | delReady=2
D71 | 2 | 0 | 1 | 0 | exclPD | 2N+ 1N[PD]+x |
D72 | 3 | 0 | 1 | 0 | exclPD | 2N+ 1N[PD]+x | up=1 upLimit=1
D73 | 3 | 0 | 1 | 0 | exclPD | 2N+ 1N[PD]+x 1N- |
D74 | 3 | 0 | 1 | 0 | exclPD | 2N+ 1N- |
D75 | 4 | 90% | 1 | 0 | exclPD, PUasU | 1O[PU]+ 2O+ | up=1 upOld=1 upLimit=1
D76 | 4 | 2 | 1 | 0 | exclPD, PUasU | 1O[PU]+ 2O+ | up=1 upLimit=1
D77 | 5 | 0 | 0 | 3 | paused | 3O+ | up=2 upLimit=2 upd=3 updMaxUn=-2
D78 | 3 | 0 | 0 | 3 | paused | 5O+ | down=2 downOld=5 delReady=2 upd=3 updMaxUn=2
D79 | 5 | 0 | 0 | 3 | paused | 5O+ 3N- | down=3 downOld=5 upd=2 updMaxUn=3
D80 | 5 | 2 | 0 | 3 | paused | 5O+ 3N- | down=3 downOld=3
"""
