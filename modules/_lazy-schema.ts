import { z } from 'pegboard'

/**
 * A schema for parameters or results that is created on first use. zod takes about 5 µs and 1 KB for each part of a
 * schema, and a start with many tools lists none of them. `z.lazy` alone would create it twice, because zod calls the
 * function again when it makes a JSON Schema.
 */
export function lazySchema<Schema extends z.ZodType>(create: () => Schema): z.ZodLazy<Schema> {
  let schema: Schema | undefined
  return z.lazy(() => {
    schema ??= create()
    return schema
  })
}
