"""The machine below gitkruise: clock, private files, packaged data, crash reports, CEL.

`clock` is the only source of time and randomness. `private_files`, `state_lock` and `crash_reports`
keep files of the state directory, `shortages` names what a machine ran out of, `package_data` reads
the data files of the wheel, `cel` and `cel_budget` evaluate users' expressions within a cost limit.
No module here talks to a cluster or a repository.

Every ring above calls this package.
"""
