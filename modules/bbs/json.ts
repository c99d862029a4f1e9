import { asRecord, type Json } from '../_is-record.ts'

/** Readers for files of other programs; values of the wrong type count as missing. */
export const listOf = (value: unknown): readonly Json[] => (Array.isArray(value) ? value.map(asRecord) : [])

export const textOf = (value: unknown): string =>
  typeof value === 'string' ? value : typeof value === 'number' ? String(value) : ''

export const numberOf = (value: unknown): number =>
  typeof value === 'number' && Number.isFinite(value) ? value : Number(textOf(value)) || 0
