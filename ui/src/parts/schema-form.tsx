import { useId, useState } from 'preact/hooks'

type Json = Readonly<Record<string, unknown>>

interface Field {
  readonly name: string
  readonly kind: 'text' | 'number' | 'boolean' | 'choice' | 'json'
  readonly required: boolean
  readonly about: string
  readonly choices: readonly unknown[]
  readonly fallback: unknown
  readonly integer: boolean
}

const isRecord = (value: unknown): value is Json => typeof value === 'object' && value !== null && !Array.isArray(value)

/** The parameters of a tool. What no simple field can hold is written as JSON. */
export function fieldsOf(schema: unknown): readonly Field[] {
  const { properties, required } = isRecord(schema) ? schema : {}
  if (!isRecord(properties)) return []
  const needed = Array.isArray(required) ? required : []
  return Object.entries(properties).map(([name, given]): Field => {
    const one = isRecord(given) ? given : {}
    const choices = Array.isArray(one['enum']) ? one['enum'] : []
    const { type } = one
    return {
      name,
      kind:
        choices.length > 0
          ? 'choice'
          : type === 'string'
            ? 'text'
            : type === 'number' || type === 'integer'
              ? 'number'
              : type === 'boolean'
                ? 'boolean'
                : 'json',
      required: needed.includes(name),
      about: typeof one['description'] === 'string' ? one['description'] : '',
      choices,
      fallback: one['default'],
      integer: type === 'integer',
    }
  })
}

/** The value that a person wrote. @throws Error that says what is wrong */
function parseField({ name, kind, choices, integer }: Field, text: string): unknown {
  if (kind === 'text') return text
  if (kind === 'boolean') return text === 'true'
  if (kind === 'choice') return choices[Number(text)]
  if (kind === 'number') {
    const number = Number(text)
    if (!Number.isFinite(number) || (integer && !Number.isInteger(number)))
      throw new Error(`${name} must be ${integer ? 'a whole number' : 'a number'}.`)
    return number
  }
  try {
    return JSON.parse(text)
  } catch {
    throw new Error(`${name} must be JSON.`)
  }
}

interface Props {
  readonly schema: unknown
  readonly busy: boolean
  /** Asks first, because the tool can destroy data. */
  readonly dangerous: boolean
  onRun(input: unknown): void
}

export function SchemaForm({ schema, busy, dangerous, onRun }: Props) {
  const fields = fieldsOf(schema)
  const [texts, setTexts] = useState<Readonly<Record<string, string>>>({})
  const [whole, setWhole] = useState<string | undefined>()
  const [problem, setProblem] = useState<string | undefined>()
  const [sure, setSure] = useState(false)
  const set = (name: string, text: string): void => setTexts({ ...texts, [name]: text })

  function input(): unknown {
    if (whole !== undefined) return JSON.parse(whole)
    const missing = fields.find(
      ({ name, required, kind }) => required && kind !== 'text' && kind !== 'boolean' && (texts[name] ?? '') === '',
    )
    if (missing) throw new Error(`${missing.name} is required.`)
    const given = fields.filter(
      ({ name, required, kind }) => (texts[name] ?? '') !== '' || (required && (kind === 'text' || kind === 'boolean')),
    )
    return Object.fromEntries(given.map((field) => [field.name, parseField(field, texts[field.name] ?? '')]))
  }
  function submit(event: Event): void {
    event.preventDefault()
    try {
      const value = input()
      setProblem(undefined)
      onRun(value)
    } catch (error) {
      setProblem(
        whole === undefined ? (error as Error).message : `The arguments must be JSON: ${(error as Error).message}`,
      )
    }
  }
  function toggle(): void {
    try {
      setWhole(whole === undefined ? JSON.stringify(input(), null, 2) : undefined)
    } catch {
      setWhole('{}')
    }
  }

  return (
    <form class="try" onSubmit={submit}>
      {whole === undefined ? (
        fields.length === 0 ? (
          <p class="hint">It takes no arguments.</p>
        ) : (
          fields.map((field) => (
            <Input
              key={field.name}
              field={field}
              text={texts[field.name] ?? ''}
              onText={(text) => set(field.name, text)}
            />
          ))
        )
      ) : (
        <label>
          Arguments as JSON
          <textarea
            rows={8}
            spellcheck={false}
            value={whole}
            onInput={(event) => setWhole(event.currentTarget.value)}
          />
        </label>
      )}
      {problem && (
        <p class="problem" role="alert">
          {problem}
        </p>
      )}
      {dangerous && (
        <label class="check">
          <input type="checkbox" checked={sure} onChange={(event) => setSure(event.currentTarget.checked)} />I know that
          this tool can destroy data
        </label>
      )}
      <div class="actions">
        <button type="submit" class="main" disabled={busy || (dangerous && !sure)}>
          {busy ? 'Running…' : 'Run'}
        </button>
        <button type="button" class="quiet" onClick={toggle}>
          {whole === undefined ? 'Write JSON' : 'Use the form'}
        </button>
      </div>
    </form>
  )
}

function Input({ field, text, onText }: { readonly field: Field; readonly text: string; onText(text: string): void }) {
  const { name, kind, required, about, choices, fallback } = field
  const hint = fallback === undefined ? undefined : `default ${JSON.stringify(fallback)}`
  const id = useId()
  const common = { id, value: text, 'aria-required': required }
  return (
    <div class="field">
      <label class="field-name" for={id}>
        {name}
        {required && <span class="hint"> required</span>}
      </label>
      {about && <span class="hint">{about}</span>}
      {kind === 'choice' ? (
        <select {...common} onChange={(event) => onText(event.currentTarget.value)}>
          <option value="">{hint ?? '–'}</option>
          {choices.map((choice, index) => (
            <option key={String(index)} value={index}>
              {String(choice)}
            </option>
          ))}
        </select>
      ) : kind === 'boolean' ? (
        <select {...common} onChange={(event) => onText(event.currentTarget.value)}>
          <option value="">{hint ?? (required ? 'false' : '–')}</option>
          <option value="true">true</option>
          <option value="false">false</option>
        </select>
      ) : kind === 'json' ? (
        <textarea
          {...common}
          rows={3}
          spellcheck={false}
          placeholder={hint ?? 'JSON'}
          onInput={(event) => onText(event.currentTarget.value)}
        />
      ) : (
        <input
          {...common}
          type="text"
          inputMode={kind === 'number' ? 'decimal' : 'text'}
          autoComplete="off"
          placeholder={hint}
          onInput={(event) => onText(event.currentTarget.value)}
        />
      )}
    </div>
  )
}
