import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { repository } from '../../deploy/local/instance.ts';
import { commandProblems, imageProblems } from '../support/command-problems.ts';
import { commandsOf, missingLines, wordsOf } from '../support/console-blocks.ts';

const read = (file: string): string => readFileSync(join(repository, file), 'utf8');
const pages = ['README.md', ...globSync('docs/kinds/*.md', { cwd: repository }).toSorted()];

describe('the commands of README and of the pages of the kinds', () => {
  it.each(pages)('%s names nothing that does not exist', async (page) => {
    expect(await commandProblems(commandsOf(page, read(page)))).toEqual([]);
  });

  it.each([...pages, ...globSync('deploy/samples/*.yaml', { cwd: repository })])(
    '%s uses images that the registry of every instance has',
    (file) => {
      const images = Array.from(read(file).matchAll(/\bbusybox:[\w.]+/g), ([image]) => image);
      expect(images.flatMap(imageProblems)).toEqual([]);
    },
  );
});

describe('commandProblems', () => {
  const problems = async (text: string) =>
    await commandProblems(commandsOf('page.md', `\`\`\`console\n${text}\n\`\`\``));

  it.each([
    ['$ kubectl patch clone shop -p \'[{"path":"/spec/image","value":"busybox:1.0"}]\'', 'image "busybox:1.0" is not'],
    ['$ kubectl apply -f shop.yaml', '"shop.yaml" does not exist'],
    ['$ kubectl get crr -o custom-columns-file=deploy/nothing.columns', '"deploy/nothing.columns" does not exist'],
    ['$ kubectl get pod shop-x7k2p', 'no sample has Pod "shop-x7k2p"'],
    ['$ kubectl wait clone/store --for=delete', 'no sample has CloneSet "store"'],
    ['$ kubectl get clonset', 'there is no kind "clonset"'],
    ['$ kubectl get pods -l app=store', 'no sample has the label "app=store"'],
    ['$ kubectl annotate clone shop windlass.io/command=pasue', 'no operation has the command "pasue"'],
    ['$ temporal workflow signal --workflow-id x --name pasue', 'no operation has the command "pasue"'],
    ['$ temporal workflow signal --workflow-id x --input \'{"by": "\'$USER\'"}\'', 'variable "USER" is not set'],
    ['$ npm run upp', 'there is no npm script "upp"'],
    ['$ npm run up -- --nods 3 # grow', 'error: unknown option'],
    ['$ npm run up -- --feature-gates=Nonsense=true', 'unknown feature gate "Nonsense"'],
    ['$ npm run part -- kil worker', "error: unknown command 'kil'"],
    ['$ kubectl kruise plan -f new.yaml', 'new.yaml'],
    ['$ kubectl kruise rollout stat clone/shop', 'stat'],
    ['$ kubectl kruise explain shop', 'error'],
  ])('refuses %s', async (text, problem) => {
    expect(await problems(text)).toEqual([expect.stringContaining(problem)]);
  });

  it('knows a variable from the command that sets it on', async () => {
    const use = '$ temporal workflow describe --workflow-id $id';
    expect(await problems(use)).toEqual(['page.md:2: variable "id" is not set']);
    expect(await problems(`$ id=roll-out/$(kubectl get clone shop)\n${use}`)).toEqual([]);
  });
});

describe('commandsOf', () => {
  it('finds commands with their further lines, and what a page shows below them', () => {
    const page = ['# T', '```console', '$ a \\', '    -b', 'out', '', 'more', '$ c', '```', '```yaml', '$ d', '```'];
    expect(commandsOf('p.md', page.join('\n'))).toEqual([
      { page: 'p.md', line: 3, text: 'a \\\n    -b', shown: ['out', '', 'more'] },
      { page: 'p.md', line: 8, text: 'c', shown: [] },
    ]);
  });
});

describe('missingLines', () => {
  it('compares words, and takes ages, counts and generated names as they come', () => {
    const output = 'NAME          PHASE       AGE\nreport-8z2kq  Completed   1m3s\n{"a":{"b":[2]},"c":3}\n';
    const shown = ['NAME   PHASE   AGE', 'report-7xk2v   Completed   3s', '{"a":{"b":[1]}, …', ''];
    expect(missingLines(shown, output)).toEqual([]);
    expect(missingLines(['report-7xk2v   Failed   3s', 'reports-1'], output)).toHaveLength(2);
  });
});

describe('wordsOf', () => {
  it('splits like a shell', () => {
    expect(wordsOf(`a 'b c'"d"e \\\n  --f={x} "$(g 'h i')"  # j`)).toEqual(['a', 'b cde', '--f={x}', "$(g 'h i')"]);
    expect(wordsOf('id=x/$(kubectl get pod -o jsonpath={.a}) b#c')).toEqual([
      'id=x/$(kubectl get pod -o jsonpath={.a})',
      'b#c',
    ]);
  });
});
