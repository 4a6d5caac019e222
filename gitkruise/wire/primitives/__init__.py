"""Small values that every ring uses: object keys, paths, times, requests, Go's JSON.

The lowest package: it imports nothing of gitkruise. Parsers of single field formats (quantities,
selectors, cron) are in `wire.values`. `secret_names` and `printable` are the rules
by which output code redacts and escapes text.
"""
