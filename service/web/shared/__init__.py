"""What every page uses: the frame around it, addresses, words for numbers and times, rendering. Imports no page."""
