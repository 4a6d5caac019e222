"""YAML and JSON as raw objects with positions, by kubectl's rules.

`documents` is the entry point; `yaml_composer` builds objects from libyaml's events and
`json_events` gives the same events for JSON; `yaml_scalars` knows what unquoted words mean and
`syntax_errors` explains libyaml's errors. `parse_cache` and `parse_cache_db` keep results by blob
id. No module here knows Kubernetes kinds or reads a repository.

`manifests`, `edit` and readers of configuration and request bodies call this package.
"""
