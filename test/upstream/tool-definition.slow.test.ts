import { AjvJsonSchemaValidator } from '@modelcontextprotocol/client/validators/ajv'
import { AjvJsonSchemaValidator as OldValidator } from '@modelcontextprotocol/sdk/validation/ajv'
import { describe, expect, it, vi } from 'vitest'
import { parseDefinition, readDefinition } from '../../src/upstream/tool-definition.ts'

const DRAFT_04 = 'http://json-schema.org/draft-04/schema#'
const DRAFT_06 = 'http://json-schema.org/draft-06/schema#'
const DRAFT_07 = 'http://json-schema.org/draft-07/schema#'
const DRAFT_2019 = 'https://json-schema.org/draft/2019-09/schema'
const DRAFT_2020 = 'https://json-schema.org/draft/2020-12/schema'

/** The listed output schema of a tool with this one. */
function listed(outputSchema: object): object | undefined {
  const record = readDefinition({ name: 't', inputSchema: { type: 'object' }, outputSchema })
  return typeof record === 'string' ? undefined : parseDefinition(record).output
}

// One compiler for all schemas, as in clients.
const validators = [new AjvJsonSchemaValidator(), new OldValidator()]
const compile = (schema: object): void => {
  for (const one of validators) one.getValidator(schema as never)
}

const KEYWORDS =
  '$id id $anchor $ref $dynamicRef $dynamicAnchor $recursiveRef $recursiveAnchor $vocabulary $comment $defs definitions type enum const multipleOf maximum exclusiveMaximum minimum exclusiveMinimum maxLength minLength pattern maxItems minItems uniqueItems maxContains minContains maxProperties minProperties required dependentRequired dependentSchemas dependencies properties patternProperties additionalProperties propertyNames items prefixItems additionalItems unevaluatedItems unevaluatedProperties contains allOf anyOf oneOf not if then else title description default deprecated readOnly writeOnly examples format contentEncoding contentMediaType contentSchema nullable discriminator $async $data x-own'.split(
    ' ',
  )
const VALUES = [true, null, 1, -1.5, 'x', '#', '(', [], ['x'], [1], [{}], {}, { a: 1 }, { a: {} }, { a: ['x'] }]

describe('an output schema of a server', () => {
  it('is listed only if clients of both SDKs can compile it', () => {
    vi.spyOn(console, 'warn').mockImplementation(() => undefined)
    const refused: string[] = []
    for (const $schema of [undefined, DRAFT_04, DRAFT_07, DRAFT_2019])
      for (const key of KEYWORDS)
        for (const value of VALUES)
          for (const schema of [{ properties: { a: { [key]: value } } }, ...($schema ? [] : [{ [key]: value }])]) {
            const shown = listed({ ...($schema && { $schema }), type: 'object', ...schema })
            try {
              if (shown) compile(shown)
            } catch (error) {
              refused.push(`${JSON.stringify(shown)}: ${(error as Error).message}`)
            }
          }
    expect(refused).toEqual([])
  }, 60_000)

  it('keeps its $schema if every client knows that draft', () => {
    for (const $schema of [DRAFT_06, DRAFT_07, DRAFT_2019, DRAFT_2020, 'https://json-schema.org/draft-07/schema']) {
      const schema = { $schema, type: 'object', properties: { a: { type: 'string', nullable: true } } }
      expect(listed(schema)).toEqual(schema)
      compile(schema)
    }
  })

  it('keeps keywords that only its draft has', () => {
    const tuple = {
      $schema: DRAFT_07,
      type: 'object',
      properties: {
        point: { type: 'array', items: [{ type: 'number' }, { $ref: '#/definitions/unit' }], additionalItems: false },
      },
      dependencies: { a: ['b'], b: { required: ['c'] } },
      definitions: { unit: { enum: ['m', 'ft'] } },
    }
    expect(listed(tuple)).toEqual(tuple)
    compile(tuple)
  })

  it('loses a $schema that newer clients reject, or is dropped if its meaning would change', () => {
    const old = { $schema: DRAFT_04, type: 'object', properties: { a: { type: 'string' } } }
    expect(() => new AjvJsonSchemaValidator().getValidator(old as never)).toThrow('unsupported dialect')
    expect(listed(old)).toEqual({ type: 'object', properties: { a: { type: 'string' } } })
    const { $schema } = old
    expect(listed({ $schema, type: 'object', properties: { a: { minimum: 1, exclusiveMinimum: true } } })).toBe(
      undefined,
    )
    expect(listed({ $schema, type: 'object', properties: { a: { type: 'array', items: [{}] } } })).toBe(undefined)
  })
})
