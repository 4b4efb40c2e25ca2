// Where the ruler is wider than the screen, the LSO is in the middle of it when the page comes.
"use strict";

for (const region of document.querySelectorAll(".scroll[data-middle]")) {
  region.scrollLeft = (region.scrollWidth * Number(region.dataset.middle)) / 100 - region.clientWidth / 2;
}
