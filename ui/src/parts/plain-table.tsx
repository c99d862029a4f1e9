import type { ComponentChildren } from 'preact'

export interface PlainTableProps {
  /** Not shown, but read by screen readers. */
  readonly caption: string
  readonly columns: readonly string[]
  /** Columns with numbers. */
  readonly numbers?: readonly string[]
  /** True if each row ends with a button. */
  readonly acts?: boolean
  /** The rows. */
  readonly children: ComponentChildren
}

/** A table that needs no sorting. */
export const PlainTable = ({ caption, columns, numbers = [], acts = false, children }: PlainTableProps) => (
  <table class="plain">
    <caption class="unseen">{caption}</caption>
    <thead>
      <tr>
        {columns.map((title) => (
          <th key={title} scope="col" class={numbers.includes(title) ? 'end' : ''}>
            {title}
          </th>
        ))}
        {acts && (
          <th scope="col">
            <span class="unseen">Action</span>
          </th>
        )}
      </tr>
    </thead>
    <tbody>{children}</tbody>
  </table>
)
