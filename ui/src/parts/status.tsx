import type { ComponentChildren } from 'preact'

export const Loading = ({ what }: { readonly what: string }) => (
  <p class="loading" role="status">
    <span class="spinner" aria-hidden="true" />
    Loading {what}…
  </p>
)

/** Says why there is nothing, and what to do. */
export const Empty = ({ title, children }: { readonly title: string; readonly children?: ComponentChildren }) => (
  <div class="empty">
    <h2>{title}</h2>
    {children}
  </div>
)

const TONES: Readonly<Record<string, string>> = {
  started: 'good',
  ready: 'good',
  ok: 'good',
  completed: 'good',
  running: 'good',
  known: 'calm',
  configured: 'calm',
  stopped: 'calm',
  disabled: 'calm',
  input_required: 'calm',
  skipped: 'warn',
  degraded: 'warn',
  'needs login': 'warn',
  failing: 'bad',
  unavailable: 'bad',
  read: 'calm',
  write: 'warn',
  destructive: 'bad',
}

const WORDS: Readonly<Record<string, string>> = {
  input_required: 'asked back',
}

/** A state in words; its colour adds nothing that the words do not say. */
export const State = ({ value }: { readonly value: string }) => (
  <span class={`state ${TONES[value] ?? (/^E_|error|failed/.test(value) ? 'bad' : 'calm')}`}>
    {WORDS[value] ?? value}
  </span>
)
