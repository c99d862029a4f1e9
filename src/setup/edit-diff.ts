import { structuredPatch } from 'diff'
import { redact } from '../core/redact.ts'
import { REDACTED } from '../core/secret-values.ts'
import type { FileEdit } from './file-edits.ts'
import { secretsInText } from './plain-secrets.ts'

const CONTEXT = 3
/** Larger differences are shown as one replaced part; finding the smallest would take too long. */
const MAX_CHANGED_LINES = 2_000

/**
 * The edits as a unified diff. What looks like a secret is replaced, so that the diff can be shown and logged.
 * @param secrets further values to hide
 */
export function diffOf(edits: readonly FileEdit[], secrets: readonly string[] = []): string {
  return edits
    .filter(({ before, after }) => before !== after)
    .map((edit) => diffOfFile(edit, secrets))
    .join('')
}

/** A reference to a variable is no secret, although its key is named like one. */
function redactAround(text: string): string {
  const references: string[] = []
  const marked = text.replaceAll(/"\$\{[\w:.-]{1,200}\}"/g, (all) => `\u0000${references.push(all) - 1};`)
  return redact(marked).replaceAll(/\u0000(\d+);/g, (_all, at) => references[Number(at)] ?? '')
}

function diffOfFile({ path, before = '', after }: FileEdit, secrets: readonly string[]): string {
  const hidden = [...new Set([...secrets, ...secretsInText(before), ...secretsInText(after)])]
  const hide = (text: string): string => {
    let shown = text
    for (const secret of hidden) shown = shown.replaceAll(secret, REDACTED)
    return redactAround(shown)
  }
  const patch = structuredPatch(path, path, before, after, undefined, undefined, {
    context: CONTEXT,
    maxEditLength: MAX_CHANGED_LINES,
  })
  const hunks = patch?.hunks ?? [
    { oldStart: 1, oldLines: 0, newStart: 1, newLines: 0, lines: ['  (most lines differ)'] },
  ]
  return `--- ${path}\n+++ ${path}\n${hunks
    .map(({ oldStart, oldLines, newStart, newLines, lines }) => {
      const head = `@@ -${oldStart},${oldLines} +${newStart},${newLines} @@\n`
      return head + hide(lines.map((line) => `${line.replaceAll('\r', '')}\n`).join(''))
    })
    .join('')}`
}
