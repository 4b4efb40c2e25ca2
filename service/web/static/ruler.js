// Scrolls a ruler that is wider than the screen, so that the LSO is in the middle of the screen.
"use strict";

for (const region of document.querySelectorAll(".scroll[data-middle]")) {
  region.scrollLeft = (region.scrollWidth * Number(region.dataset.middle)) / 100 - region.clientWidth / 2;
}
