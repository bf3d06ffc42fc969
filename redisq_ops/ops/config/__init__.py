"""Settings and their sources: flag > context > environment > configuration file > default.

The file is ``$XDG_CONFIG_HOME/redisq/config.toml``, with keys for all commands and
``[contexts.NAME]`` tables for ``--context NAME``. A context comes before the environment, so that
``--context production`` is production whatever ``REDIS_URL`` the shell has. Of a setting that
protects (`STRICTEST_WINS`) the strictest value of all sources holds. ``${NAME}`` in a text of the
file is an environment variable; ``password_file`` names a file. Secrets are never shown.
"""
