// Asks a model which claims an answer meets.
const GUIDE = `You check an answer against claims. For each claim: 1 if the answer covers it completely, 0.5 if in part, 0 if not.
Numbers may differ by 5 %. A claim about a step holds if the answer shows that it was done. Answer with JSON alone: {"scores": [1, 0.5, …]}.`

/** @returns one score for each claim, 0 for those that the judge left out; no claims: whether it answers the request at all */
export async function judge(model, request, said, claims) {
  const asked = claims.length > 0 ? claims : ['The answer does what the request asks.']
  const question = `Request: ${request}\n\nAnswer: ${said || '(none)'}\n\nClaims:\n${asked.map((one, at) => `${at + 1}. ${one}`).join('\n')}`
  const chat = model.open(`${GUIDE}\n\n${question}`, [])
  await chat.next()
  const [json = '{}'] = /\{[\s\S]*\}/.exec(chat.said) ?? []
  const { scores = [] } = JSON.parse(json)
  return asked.map((_, at) => ([0, 0.5, 1].includes(scores[at]) ? scores[at] : 0))
}
