import type { ComponentChildren } from 'preact'
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'

export interface Column<Row> {
  readonly id: string
  readonly title: string
  /** A share of the width, or a fixed width such as `6rem`. */
  readonly width: string
  readonly end?: boolean
  cell(row: Row): ComponentChildren
  /** Makes the column sortable. */
  sort?(a: Row, b: Row): number
}

interface Props<Row> {
  readonly label: string
  readonly rows: readonly Row[]
  readonly columns: readonly Column<Row>[]
  keyOf(row: Row): string
  /** What a click or Enter on the first cell opens. */
  open?(row: Row): void
  readonly selected?: ReadonlySet<string> | undefined
  onSelect?(keys: ReadonlySet<string>): void
  rowClass?(row: Row): string
}

const ROW = 40
/** Rows that are drawn above and below what is seen. */
const BESIDE = 8

/** A table of any length: only the rows in sight are in the document. */
export function Table<Row>(props: Props<Row>) {
  const { label, columns, keyOf, open, selected, onSelect } = props
  const frame = useRef<HTMLDivElement>(null)
  /** The row that a key has chosen and that is not drawn yet. */
  const moving = useRef<number | undefined>(undefined)
  const [top, setTop] = useState(0)
  const [height, setHeight] = useState(600)
  const [order, setOrder] = useState<{ readonly id: string; readonly down: boolean } | undefined>()
  const [focus, setFocus] = useState<number | undefined>()
  const sorting = columns.find(({ id }) => id === order?.id)?.sort
  const rows = sorting ? [...props.rows].sort((a, b) => sorting(a, b) * (order?.down ? -1 : 1)) : props.rows

  useLayoutEffect(() => {
    const element = frame.current
    if (!element) return
    const watch = new ResizeObserver(() => setHeight(element.clientHeight))
    watch.observe(element)
    return () => watch.disconnect()
  }, [])
  // A shorter list may end above the place that was scrolled to.
  useEffect(() => {
    if (frame.current && frame.current.scrollTop > rows.length * ROW) frame.current.scrollTop = 0
  }, [rows.length])
  // Before the browser handles the next key: the row that had the focus may be gone.
  useLayoutEffect(() => {
    if (focus === undefined) return
    frame.current?.querySelector<HTMLElement>(`[data-at="${focus}"] button.opener`)?.focus()
    moving.current = undefined
  }, [focus])

  const first = Math.max(0, Math.floor(top / ROW) - BESIDE)
  const last = Math.min(rows.length, Math.ceil((top + height) / ROW) + BESIDE)
  const shown = rows.slice(first, last)
  const template = `${onSelect ? '2.5rem ' : ''}${columns.map(({ width }) => width).join(' ')}`
  const all = onSelect !== undefined && rows.length > 0 && rows.every((row) => selected?.has(keyOf(row)))

  function move(event: KeyboardEvent): void {
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10 }[event.key]
    const at = moving.current ?? Number((event.target as HTMLElement).closest<HTMLElement>('[data-at]')?.dataset['at'])
    if (step === undefined || !Number.isInteger(at)) return
    event.preventDefault()
    const next = Math.max(0, Math.min(rows.length - 1, at + step))
    const element = frame.current
    if (!element) return
    const head = ROW
    if (next * ROW < element.scrollTop) element.scrollTop = next * ROW
    else if ((next + 1) * ROW + head > element.scrollTop + element.clientHeight)
      element.scrollTop = (next + 1) * ROW + head - element.clientHeight
    moving.current = next === focus ? undefined : next
    setTop(element.scrollTop)
    setFocus(next)
    if (next === focus) element.querySelector<HTMLElement>(`[data-at="${next}"] button.opener`)?.focus()
  }

  return (
    <div class="table" ref={frame} onScroll={(event) => setTop(event.currentTarget.scrollTop)}>
      <div
        role="table"
        aria-label={label}
        aria-rowcount={rows.length + 1}
        aria-colcount={columns.length + (onSelect ? 1 : 0)}
      >
        <div role="rowgroup" class="head">
          <div role="row" class="row" aria-rowindex={1} style={{ gridTemplateColumns: template }}>
            {onSelect && (
              <div role="columnheader" class="cell">
                <input
                  type="checkbox"
                  aria-label="Select all rows"
                  checked={all}
                  onChange={() => onSelect(new Set(all ? [] : rows.map(keyOf)))}
                />
              </div>
            )}
            {columns.map(({ id, title, end, sort }) => (
              <div
                key={id}
                role="columnheader"
                class={`cell${end ? ' end' : ''}`}
                aria-sort={order?.id === id ? (order.down ? 'descending' : 'ascending') : undefined}
              >
                {sort ? (
                  <button
                    type="button"
                    class="sorter"
                    onClick={() => setOrder({ id, down: order?.id === id && !order.down })}
                  >
                    {title}
                    <span aria-hidden="true">{order?.id === id ? (order.down ? ' ↓' : ' ↑') : ''}</span>
                  </button>
                ) : (
                  title
                )}
              </div>
            ))}
          </div>
        </div>
        <div role="rowgroup" class="body" style={{ height: `${rows.length * ROW}px` }}>
          {shown.map((row, index) => {
            const at = first + index
            const key = keyOf(row)
            return (
              <div
                key={key}
                role="row"
                class={`row ${props.rowClass?.(row) ?? ''}`}
                data-at={at}
                aria-rowindex={at + 2}
                aria-selected={onSelect ? (selected?.has(key) ?? false) : undefined}
                style={{ gridTemplateColumns: template, transform: `translateY(${at * ROW}px)` }}
              >
                {onSelect && (
                  <div role="cell" class="cell">
                    <input
                      type="checkbox"
                      aria-label={`Select ${key}`}
                      checked={selected?.has(key) ?? false}
                      onChange={(event) => onSelect(toggled(selected, key, event.currentTarget.checked))}
                    />
                  </div>
                )}
                {columns.map((column, place) => (
                  <div key={column.id} role="cell" class={`cell${column.end ? ' end' : ''}`}>
                    {place === 0 && open ? (
                      <button type="button" class="opener" onClick={() => open(row)} onKeyDown={move}>
                        {column.cell(row)}
                      </button>
                    ) : (
                      column.cell(row)
                    )}
                  </div>
                ))}
              </div>
            )
          })}
        </div>
      </div>
    </div>
  )
}

function toggled(before: ReadonlySet<string> | undefined, key: string, on: boolean): ReadonlySet<string> {
  const next = new Set(before)
  if (on) next.add(key)
  else next.delete(key)
  return next
}
