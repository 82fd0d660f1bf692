import { builtinModules } from 'node:module';
import { dirname, join } from 'node:path/posix';
import { parseSync } from '@swc/core';

/** A text file of the project. */
export interface ProjectFile {
  /** Relative to the root, with forward slashes. */
  readonly path: string;
  readonly text: string;
}

/** One import, re-export or dynamic import. */
interface Import {
  /** As written: `../api/pod.ts`, `node:fs`, `@temporalio/client`. */
  readonly specifier: string;
  /** The file meant, relative to the root; absent for packages. */
  readonly path?: string;
  /** Leaves nothing behind at run time: `import type`, `export type`. */
  readonly typeOnly: boolean;
  readonly line: number;
}

/** A use of a name that no scope of the file declares: `process`, `Date.now`, `new Date()`. */
interface GlobalUse {
  readonly text: string;
  readonly line: number;
}

/** A call such as `it('a sentence', …)` with the text it begins with. */
interface TextCall {
  /** The first name: `it` for `it.each(rows)('a sentence')`. */
  readonly callee: string;
  readonly text: string;
}

export interface SourceFile {
  readonly path: string;
  readonly imports: readonly Import[];
  readonly globals: readonly GlobalUse[];
  readonly textCalls: readonly TextCall[];
}

/** True for Node's own modules, with and without `node:`. */
export function isNodeModule(specifier: string): boolean {
  return specifier.startsWith('node:') || builtinModules.includes(specifier);
}

const modulesNamed = new Set(['ImportDeclaration', 'ExportAllDeclaration', 'ExportNamedDeclaration']);

// The syntax tree as far as we look into it; swc's own types are a union of some hundred.
interface Node {
  readonly type: string;
  readonly span: { readonly start: number };
  readonly [key: string]: unknown;
}

/** What the checks need to know of a source file. Throws, naming it, when it cannot be parsed. */
export function readSource({ path, text }: ProjectFile): SourceFile {
  const bytes = Buffer.from(text);
  const lineOf = (node: Node) =>
    bytes
      .subarray(0, node.span.start - 1)
      .toString()
      .split('\n').length;
  const imports: Import[] = [];
  const globals: GlobalUse[] = [];
  const textCalls: TextCall[] = [];

  function addImport(node: Node, source: unknown, typeOnly: boolean): void {
    if (!isNode(source) || typeof source.value !== 'string') return;
    const specifier = source.value;
    const target = specifier.startsWith('.') ? { path: join(dirname(path), specifier) } : {};
    imports.push({ specifier, ...target, typeOnly, line: lineOf(node) });
  }

  function visit(node: Node): void {
    // Types vanish before the program runs; only these wrap something that stays.
    if (node.type.startsWith('Ts') && !isNode(node.expression)) return;
    if (modulesNamed.has(node.type)) addImport(node, node.source, node.typeOnly === true);
    if (node.type === 'ImportDeclaration') return;
    if (node.type === 'CallExpression') visitCall(node);
    const used = globalUse(node);
    if (used !== undefined) globals.push({ text: used, line: lineOf(node) });
    // What has been seen whole, `Date.now` or `new Date`, is no further use of its parts.
    const seen = used === undefined ? [] : [node.object, node.callee];
    for (const child of childrenOf(node)) if (!seen.includes(child)) visit(child);
  }

  function visitCall(node: Node): void {
    const first: unknown = Array.isArray(node.arguments) ? node.arguments[0]?.expression : undefined;
    if (!isNode(node.callee) || !isNode(first)) return;
    if (node.callee.type === 'Import') addImport(node, first, false);
    const said = textOf(first);
    if (said !== undefined) textCalls.push({ callee: firstName(node.callee), text: said });
  }

  try {
    const parsed: unknown = parseSync(text, { syntax: 'typescript', target: 'es2024' });
    if (isNode(parsed)) visit(parsed);
  } catch (error) {
    throw new Error(`Cannot parse "${path}": ${error instanceof Error ? error.message : String(error)}`);
  }
  return { path, imports, globals, textCalls };
}

/** swc marks a name that nothing declares with context 1, and leaves property names without context. */
function isGlobal(node: unknown): node is Node & { value: string } {
  return isNode(node) && node.type === 'Identifier' && node.ctxt === 1 && typeof node.value === 'string';
}

function globalUse(node: Node): string | undefined {
  if (isGlobal(node)) return node.value;
  if (node.type === 'MemberExpression' && isGlobal(node.object)) {
    const property = isNode(node.property) ? (node.property.value ?? textOf(node.property)) : undefined;
    return typeof property === 'string' ? `${node.object.value}.${property}` : node.object.value;
  }
  if (node.type === 'NewExpression' && isGlobal(node.callee)) {
    const empty = !Array.isArray(node.arguments) || node.arguments.length === 0;
    return `new ${node.callee.value}(${empty ? '' : '…'})`;
  }
  return undefined;
}

function childrenOf(node: Node): readonly Node[] {
  return Object.values(node).flatMap((value) => {
    if (Array.isArray(value)) return value.flatMap((inner) => (isNode(inner) ? [inner] : unwrapped(inner)));
    return isNode(value) ? [value] : unwrapped(value);
  });
}

/** Arguments and parameters sit in plain objects around their nodes. */
function unwrapped(value: unknown): readonly Node[] {
  if (typeof value !== 'object' || value === null) return [];
  return Object.values(value).filter(isNode);
}

function firstName(callee: Node): string {
  if (callee.type === 'Identifier') return String(callee.value);
  const inner = callee.object ?? callee.callee ?? callee.tag;
  return isNode(inner) ? firstName(inner) : '';
}

function textOf(node: Node): string | undefined {
  if (node.type === 'Computed' && isNode(node.expression)) return textOf(node.expression);
  if (node.type === 'StringLiteral') return String(node.value);
  if (node.type !== 'TemplateLiteral' || !Array.isArray(node.quasis)) return undefined;
  return node.quasis.map((part: { readonly cooked?: unknown }) => String(part.cooked ?? '')).join('…');
}

function isNode(value: unknown): value is Node {
  return (
    typeof value === 'object' && value !== null && 'type' in value && typeof value.type === 'string' && 'span' in value
  );
}
