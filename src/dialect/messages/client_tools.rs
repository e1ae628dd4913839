//! Tools that Anthropic defined and the client runs, as functions for models of others.
//!
//! Their schemas are not in the request: the models know them. Elsewhere they are sent as published
//! ("Bash tool", "Text editor tool", "Memory tool"). Tools that an upstream runs, and the computer
//! tool, whose models were trained for it, have no such form.

use crate::dialect::canonical::Tool;
use crate::dialect::literal::{Json, Text};

struct ClientTool {
    /// How its versions' types begin.
    kind: &'static str,
    name: &'static str,
    description: &'static str,
    schema: &'static str,
}

const TOOLS: [ClientTool; 3] = [
    ClientTool {
        kind: "bash_",
        name: "bash",
        description: "Runs a command in a bash shell that stays open between calls.",
        schema: r#"{"type":"object","properties":{"command":{"type":"string","description":"The command to run. Required unless the shell is restarted."},"restart":{"type":"boolean","description":"Restarts the shell."}}}"#,
    },
    ClientTool {
        kind: "text_editor_",
        name: "str_replace_based_edit_tool",
        description: "Views, creates and edits text files.",
        schema: r#"{"type":"object","properties":{"command":{"type":"string","enum":["view","create","str_replace","insert"]},"path":{"type":"string","description":"The file or directory."},"file_text":{"type":"string","description":"For create: the content."},"old_str":{"type":"string","description":"For str_replace: the text to replace, exactly and only once in the file."},"new_str":{"type":"string","description":"For str_replace: the text to put there."},"insert_line":{"type":"integer","description":"For insert: the line after which to insert, 0 for the beginning."},"insert_text":{"type":"string","description":"For insert: the text."},"view_range":{"type":"array","items":{"type":"integer"},"description":"For view: the first and the last line, -1 for the end."}},"required":["command","path"]}"#,
    },
    ClientTool {
        kind: "memory_",
        name: "memory",
        description: "Keeps notes in files under /memories that stay between conversations.",
        schema: r#"{"type":"object","properties":{"command":{"type":"string","enum":["view","create","str_replace","insert","delete","rename"]},"path":{"type":"string"},"view_range":{"type":"array","items":{"type":"integer"}},"file_text":{"type":"string"},"old_str":{"type":"string"},"new_str":{"type":"string"},"insert_line":{"type":"integer"},"insert_text":{"type":"string"},"old_path":{"type":"string"},"new_path":{"type":"string"}},"required":["command"]}"#,
    },
];

/// The function for a tool of that type, under the name it has in the request.
pub(super) fn as_function<'a>(kind: &str, name: Option<Text<'a>>) -> Option<Tool<'a>> {
    let tool = TOOLS.iter().find(|tool| kind.starts_with(tool.kind))?;
    Some(Tool::Function {
        name: name.unwrap_or(Text::plain(tool.name)),
        description: Some(Text::plain(tool.description)),
        parameters: Some(Json::checked(tool.schema)),
        strict: None,
    })
}
