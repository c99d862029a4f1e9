import { classifyFailure, type FailureClass, failureClasses, hintOf } from '../core/failure-class.ts'
import { asRecord } from '../core/is-record.ts'
import { type ContentBlock, FAILURE_META, type McpResult, noticeBlock } from '../core/tool-result.ts'

/** The `_meta` of a server's failed result, for programs. */
export const toFailureMeta = (failure: FailureClass) => ({
  [FAILURE_META]: { class: failure, retryable: failureClasses[failure].retryable },
})

/** Adds the class of a failure, and its hint as a notice. The server's own content stays as it is. */
export function explainFailure(result: McpResult): {
  readonly result: McpResult
  readonly class: FailureClass | undefined
} {
  const { content = [], structuredContent, _meta } = result
  const texts = content.filter((block) => block.type === 'text')
  const failure = classifyFailure(texts.length > 0 ? firstAndLast(texts) : JSON.stringify(structuredContent ?? ''))
  if (failure === undefined) return { result, class: undefined }
  return {
    class: failure,
    result: {
      ...result,
      content: [...content, noticeBlock(hintOf(failure))],
      _meta: { ..._meta, ...toFailureMeta(failure) },
    },
  }
}

/** The class that `explainFailure` added. */
export function failureOfResult({ _meta }: McpResult): unknown {
  const member = _meta?.[FAILURE_META]
  return asRecord(member)['class']
}

/** `classifyFailure` reads only the beginning and the end of a text, so the texts between are not joined. */
function firstAndLast(texts: readonly ContentBlock[]): string {
  const [first, last] = [texts[0], texts.at(-1)].map((block) => String(block?.['text'] ?? ''))
  return texts.length === 1 ? `${first}` : `${first}\n${last}`
}
