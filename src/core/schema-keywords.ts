/** Keywords of JSON Schema whose value is a schema. */
export const SCHEMA_KEYWORDS: ReadonlySet<string> = new Set(
  'items additionalItems contains additionalProperties propertyNames not if then else unevaluatedItems unevaluatedProperties'.split(
    ' ',
  ),
)
/** Keywords whose value is a list of schemas. */
export const LIST_KEYWORDS: ReadonlySet<string> = new Set(['allOf', 'anyOf', 'oneOf', 'prefixItems'])
/** Keywords whose value is an object of schemas. */
export const MAP_KEYWORDS: ReadonlySet<string> = new Set([
  'properties',
  'patternProperties',
  '$defs',
  'definitions',
  'dependentSchemas',
])
/** The values of `type`. */
export const SCHEMA_TYPES: ReadonlySet<unknown> = new Set('object array string number integer boolean null'.split(' '))
/** Keywords whose value is data, so names in it are no keywords. */
export const DATA_KEYWORDS: ReadonlySet<string> = new Set(['const', 'default', 'enum', 'examples'])
