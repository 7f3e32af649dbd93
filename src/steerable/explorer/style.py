"""The page's own style, on top of Gradio's: tables, cards and pixel images, in light and dark."""

from __future__ import annotations

__all__ = ["STYLE"]

STYLE = """
:root { --st-quiet: #667085 } .dark { --st-quiet: #a3adbd }
.st-page { font-size: 15px; line-height: 1.5 } .st-page section { margin-top: 1.4rem; min-width: 0 }
.st-page h3 { font-size: 1.08rem; font-weight: 650; margin: 1.2rem 0 .35rem }
.st-lead { font-size: 1.05rem; margin: .5rem 0 }
.st-note { color: var(--st-quiet); margin: .2rem 0 .6rem }
.st-formula { font-size: 1.05rem; font-weight: 600; margin: .6rem 0 .2rem }
.wide { overflow-x: auto; max-width: 100% }
table.st-table { border-collapse: collapse; font-variant-numeric: tabular-nums; width: auto; margin: .2rem 0 }
.st-page table, .st-page tr, .st-page thead, .st-page tbody { border: 0 !important }
.st-table th, .st-table td { padding: .32rem .7rem; border: 0; border-bottom: 1px solid var(--border-color-primary);
  text-align: left; vertical-align: middle; white-space: nowrap }
.st-table thead th { font-weight: 600; color: var(--st-quiet) } .st-table td.st-head { font-weight: 600 }
td.st-head small { display: block; font-weight: 400; color: var(--st-quiet) }
.st-table th.number, .st-table td.number { text-align: right }
.st-table td.st-tinted { color: #1f2430; text-align: right; min-width: 3.2rem }
.st-products td, .st-products th { text-align: center !important; padding: .25rem .5rem !important }
.st-products td:not(.st-head) { color: #1f2430 }
.st-dense td, .st-dense th { padding: .1rem .18rem !important; font-size: 9px }
table.st-matrix { border: 1.5px solid currentColor !important; border-width: 0 1.5px !important; border-radius: 5px;
  border-collapse: separate; border-spacing: 0; width: auto; margin: 0 }
.st-matrix td { padding: 0 .3rem !important; border: 0 !important; text-align: right !important; font-size: .85rem }
.st-side { display: flex; flex-wrap: wrap; gap: 0 2.5rem; align-items: flex-start } .st-side > * { max-width: 100% }
.st-strip { display: flex; flex-wrap: wrap; gap: .9rem; align-items: center } .st-strip figure { margin: 0 }
.st-strip figcaption { text-align: center; color: var(--st-quiet); font-size: .85rem }
.st-arrow { font-size: 1.2rem; color: var(--st-quiet) }
.st-pixels { image-rendering: pixelated; border: 1px solid var(--border-color-primary); max-width: none; height: auto }
.st-figure { background: #fff; border: 1px solid var(--border-color-primary); border-radius: 8px; padding: .3rem;
  margin: .8rem 0; overflow-x: auto; width: fit-content; max-width: 100% }
.st-figure img { max-width: 100%; height: auto }
.st-cards { display: flex; flex-wrap: wrap; gap: .8rem; margin: .4rem 0 1rem }
.st-card { border: 1px solid var(--border-color-primary); border-radius: 8px; padding: .55rem 1rem; min-width: 8.5rem }
.st-card small { display: block; color: var(--st-quiet) }
.st-card b { font-size: 1.25rem; white-space: nowrap }
.st-error { border: 1px solid #d1495b; border-left-width: 5px; border-radius: 6px; margin: .5rem 0;
  padding: .5rem .9rem; background: rgb(209 73 91 / 8%) }
.st-error pre { white-space: pre-wrap; overflow-wrap: anywhere; font-family: ui-monospace, Menlo, Consolas, monospace;
  font-size: .88rem; margin: 0; background: none; color: inherit }
.st-maps td { padding: .2rem !important; border: 0 !important }
.st-good, .st-bad { max-width: 29rem; margin: .1rem 0 .5rem } .st-good b { color: #1f8a5b } .st-bad b { color: #c0392b }
.st-bar { background: var(--border-color-primary); width: 9rem; height: .5rem; border-radius: 4px; overflow: hidden }
.st-bar div { background: var(--color-accent); height: 100% }
.st-report { width: 100%; height: 46rem; border: 1px solid var(--border-color-primary); border-radius: 8px;
  background: #fff }
footer { display: none !important }
"""
