import { type ComponentChildren, Fragment } from 'preact'

/** A list of names and values. Leaves out those without a value. */
export const Facts = ({ rows }: { readonly rows: readonly (readonly [name: string, value: ComponentChildren])[] }) => (
  <dl class="facts">
    {rows.map(
      ([name, value]) =>
        value && (
          <Fragment key={name}>
            <dt>{name}</dt>
            <dd class="text">{value}</dd>
          </Fragment>
        ),
    )}
  </dl>
)
