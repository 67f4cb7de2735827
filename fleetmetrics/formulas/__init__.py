"""Pure functions from global statistics to the value: NumPy only, no Paddle, no communication."""

from fleetmetrics.formulas.aggregation import *
from fleetmetrics.formulas.auc import *
from fleetmetrics.formulas.calibration import *
from fleetmetrics.formulas.class_areas import *
from fleetmetrics.formulas.classification import *
from fleetmetrics.formulas.click_through import *
from fleetmetrics.formulas.confusion import *
from fleetmetrics.formulas.correlation import *
from fleetmetrics.formulas.curves import *
from fleetmetrics.formulas.exact_auc import *
from fleetmetrics.formulas.operating_points import *
from fleetmetrics.formulas.pairs import *
from fleetmetrics.formulas.ranking import *
from fleetmetrics.formulas.ratio import *
