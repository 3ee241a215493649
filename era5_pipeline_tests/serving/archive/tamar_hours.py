"""Three days of hours at the river Tamar, 2022-01-01 to 03 in UTC, and the daily values that follow from them.

Hours: of `data/era5_2022.nc` of github.com/riquitorres/pygetm_2d_xz at 5ebad9b, rounded to hundredths (precipitation to
hundred-thousandths of mm). Contains modified Copernicus Climate Change Service information 2022.
"""

from __future__ import annotations

from datetime import date

import numpy as np

from era5_pipeline.model.cells import cell_of
from era5_pipeline.model.dataset import ERA5
from era5_pipeline.serving.archive.models import Model
from era5_pipeline.serving.archive.parameters import ArchivePoint
from era5_pipeline.serving.archive.times import GMT, Days


def _hours(text: str, scale: float) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    return (np.array(text.split(), dtype=np.float64) / scale).astype(np.float32)


HOURS = {
    "temperature_2m": _hours(
        """1261 1289 1315 1339 1362 1370 1357 1344 1326 1317 1297 1307 1325 1313 1302 1272 1239 1224 1213 1205 1189 1169
        1175 1162 1170 1173 1177 1160 1112 1082 1067 1066 1059 1074 1119 1107 1076 1064 1095 1081 1050 1035 1023 1032
        1032 1035 1033 1020 1036 1045 1032 1010 1021 1003 990 990 997 998 1003 1036 1067 1069 1065 1055 1015 972 953 936
        924 918 913 903""",
        100,
    ),
    "zonal_wind_10m": _hours(
        """30 55 80 153 189 194 268 373 420 407 468 383 390 375 431 361 307 296 298 301 310 321 460 380 393 539 674 894
        782 583 416 418 394 352 554 694 640 830 891 827 872 843 846 726 724 811 717 706 757 882 766 879 844 732 678 599
        539 519 523 561 390 579 473 531 508 501 530 555 521 488 458 345""",
        100,
    ),
    "meridional_wind_10m": _hours(
        """869 887 925 912 901 892 866 810 745 658 532 510 546 515 558 530 498 552 579 548 529 549 549 484 377 447 519
        479 221 328 365 463 518 557 591 381 414 516 430 377 429 312 224 200 306 345 307 313 435 339 271 310 356 368 361
        339 341 333 206 204 217 372 328 296 252 272 269 226 178 145 277 110""",
        100,
    ),
    "total_precipitation": _hours(
        """0 0 0 0 0 0 0 117828 19764 14004 13140 3168 3888 9360 5508 3960 2412 1296 1044 6984 7092 11772 18396 14796
        17712 15516 27432 48420 66204 24372 3096 1512 1476 2880 32472 82476 92304 62640 32220 14868 10584 2484 792
        19476 8928 51876 17388 21744 9972 8172 9504 21096 13284 30888 29628 3600 288 180 396 540 0 252 576 180 288 432
        144 9792 1404 0 36 1548""",
        100_000,
    ),
}
# The file's values under Open-Meteo's rules, computed independently in float64 and written down.
DAILY: dict[str, list[float]] = {
    "temperature_2m_mean": [12.8, 10.8, 10.0],
    "temperature_2m_max": [13.7, 11.8, 10.7],
    "temperature_2m_min": [11.6, 10.2, 9.0],
    "precipitation_sum": [2.54, 6.59, 1.42],
    "wind_speed_10m_max": [33.4, 36.5, 34.0],
    "wind_direction_10m_dominant": [204, 240, 244],
}
POINT = ArchivePoint(0, cell_of(50.5, -4.25), Days(date(2022, 1, 1), date(2022, 1, 3)), GMT, Model("era5", ERA5))
