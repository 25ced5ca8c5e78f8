"""Log records in, one JSON object on one line out, for machines that read logs.

    handler.setFormatter(JsonFormatter())

Records of semcast carry what they are about as `extra={"semcast": {...}}`; it goes along as it is.
"""

import json
import logging
from datetime import UTC, datetime


class JsonFormatter(logging.Formatter):
    """Stable keys: time, level, logger, text; semcast and error where there is such."""

    def format(self, record: logging.LogRecord) -> str:
        """One line, whatever is in the record."""
        found: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname.lower(),
            "logger": record.name,
            "text": record.getMessage(),
        }
        about = getattr(record, "semcast", None)
        if about is not None:
            found["semcast"] = about
        if record.exc_info:
            found["error"] = self.formatException(record.exc_info)
        return json.dumps(found, default=str, ensure_ascii=False)
