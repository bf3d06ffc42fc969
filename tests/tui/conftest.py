"""A pilot that waits for an idle screen in steps of 10 ms; Textual's own are of 20."""

import textual._wait

textual._wait.SLEEP_GRANULARITY = 0.01
textual._wait.SLEEP_IDLE = textual._wait.SLEEP_GRANULARITY / 20
