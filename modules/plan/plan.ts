import { isRecord } from '../_is-record.ts'

const STATUSES = ['pending', 'in_progress', 'completed'] as const
type Status = (typeof STATUSES)[number]

export interface Step {
  readonly step: string
  readonly status: Status
}

export interface Plan {
  readonly thought: string
  readonly summary: string
  readonly steps: readonly Step[]
  readonly risks: readonly string[]
  readonly questions: readonly string[]
  readonly completion: string
}

/** A model's answer as a plan with a maximum number of steps; undefined if it is not a plan. */
export function planOf(answer: unknown, maxSteps: number): Plan | undefined {
  const plan = isRecord(answer) && isRecord(answer['plan']) ? answer['plan'] : answer
  if (!isRecord(plan) || !Array.isArray(plan['steps']) || plan['steps'].length === 0) return undefined
  return {
    thought: text(plan['thought']),
    summary: text(plan['summary']),
    steps: plan['steps'].slice(0, maxSteps).map(stepOf),
    risks: texts(plan['risks']),
    questions: texts(plan['questions']),
    completion: text(plan['completion']),
  }
}

function stepOf(value: unknown, index: number): Step {
  const { step, status } = isRecord(value) ? value : { step: value, status: undefined }
  const statusText = text(status).toLowerCase()
  const first = index === 0 ? 'in_progress' : 'pending'
  return {
    step: text(step) || `step ${index + 1}`,
    status: statusText === '' ? first : (STATUSES.find((knownStatus) => knownStatus === statusText) ?? 'pending'),
  }
}

const text = (value: unknown): string => (typeof value === 'string' ? value.trim() : '')
const texts = (value: unknown): readonly string[] =>
  (Array.isArray(value) ? value : [value]).map(text).filter((text) => text !== '')
