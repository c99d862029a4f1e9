import { Validator } from '@cfworker/json-schema'
import { isRecord } from './is-record.ts'
import { describeValidationErrors } from './json-schema-error.ts'

export type JsonSchema = Readonly<Record<string, unknown>>

/** A validation error. `path` is dotted, and empty for the value itself. */
export interface Issue {
  readonly path: string
  readonly message: string
}

export type ParseResult =
  | { readonly ok: true; readonly value: unknown }
  | { readonly ok: false; readonly issues: readonly Issue[] }

/** A tool's input: the JSON Schema that clients see, and the check for arguments. */
export interface Schema {
  /** Draft 2020-12; tool inputs have `type: object` at the root. Computed once; do not modify. */
  readonly json: JsonSchema
  parse(value: unknown): ParseResult
}

/** The part of Standard Schema (https://standardschema.dev) used here; zod 4, valibot and arktype implement it. */
export interface StandardSchema<Input = unknown, Output = Input> {
  readonly '~standard': {
    readonly version: 1
    readonly vendor: string
    readonly validate: (value: unknown) => StandardResult<Output> | Promise<StandardResult<Output>>
    readonly jsonSchema?: { readonly input: (options: { target: string }) => Record<string, unknown> }
    readonly types?: { readonly input: Input; readonly output: Output } | undefined
  }
}

type StandardResult<Output> =
  | { readonly value: Output; readonly issues?: undefined }
  | { readonly issues: readonly StandardIssue[] }

export interface StandardIssue {
  readonly message: string
  readonly path?: ReadonlyArray<PropertyKey | { readonly key: PropertyKey }> | undefined
}

export function isStandardSchema(value: unknown): value is StandardSchema {
  return (typeof value === 'object' || typeof value === 'function') && value !== null && '~standard' in value
}

/**
 * Creates a Schema from a Standard Schema (zod and others) or a raw JSON Schema object. The JSON form is computed on
 * first use.
 * @param describeIssue describes a validation error
 * @throws TypeError if the value is neither, or if a Standard Schema cannot be expressed as JSON Schema
 */
export function toSchema(source: unknown, describeIssue = messageOf): Schema {
  if (isStandardSchema(source)) return fromStandard(source, describeIssue)
  if (typeof source === 'object' && source !== null && !Array.isArray(source)) return fromJson(source as JsonSchema)
  throw new TypeError('expected a zod (Standard Schema) object or a JSON Schema object')
}

const messageOf = ({ message }: StandardIssue, _value: unknown): string => message

function fromStandard(source: StandardSchema, describeIssue: typeof messageOf): Schema {
  let json: JsonSchema | undefined
  return {
    get json() {
      if (json === undefined) {
        const convert = source['~standard'].jsonSchema
        if (!convert)
          throw new TypeError(
            `${source['~standard'].vendor} cannot give a JSON Schema; use zod 4.2 or later, or a raw JSON Schema`,
          )
        const { $schema: _dialect, ...rest } = convert.input({ target: 'draft-2020-12' })
        json = rest
      }
      return json
    },
    parse(value) {
      const result = source['~standard'].validate(value)
      if (result instanceof Promise) throw new TypeError('schemas with asynchronous checks are not supported')
      if (!result.issues) return { ok: true, value: result.value }
      return {
        ok: false,
        issues: result.issues.map((issue) => ({ path: formatPath(issue.path), message: describeIssue(issue, value) })),
      }
    },
  }
}

function formatPath(path: ReadonlyArray<PropertyKey | { readonly key: PropertyKey }> | undefined): string {
  return (path ?? []).map((part) => String(typeof part === 'object' ? part.key : part)).join('.')
}

function fromJson(json: JsonSchema): Schema {
  let validator: Validator | undefined
  return {
    json,
    parse(value) {
      // An interpreting validator, because modules may define hundreds of schemas of which most are never used.
      validator ??= new Validator(json as object, '2020-12', false)
      const result = validator.validate(value)
      if (result.valid) return { ok: true, value }
      return { ok: false, issues: describeValidationErrors(result.errors, json, value) }
    },
  }
}

/** Accepts any object; used for tools without an input schema. */
export const emptyObject: Schema = {
  json: { type: 'object', properties: {} },
  parse: (value) =>
    isRecord(value) ? { ok: true, value } : { ok: false, issues: [{ path: '', message: 'must be an object' }] },
}

/** Publishes `json` but checks nothing, because upstream servers check their own arguments. */
export function createUncheckedSchema(json: JsonSchema): Schema {
  return { json, parse: (value) => ({ ok: true, value }) }
}
