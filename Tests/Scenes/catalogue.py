"""All scenes, in the order of the table."""
import outages  # noqa: F401
import partial  # noqa: F401
import causes  # noqa: F401
import service  # noqa: F401
import disk  # noqa: F401
import surroundings  # noqa: F401
import quiet  # noqa: F401
from scene import SCENES  # noqa: F401
